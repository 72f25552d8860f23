"""What the verdict on unlearned steps (`tomserve faithfulness --unlearn`) is worth, by checkpoints of known truth.

    python bench/unlearning_truth.py            # five seeds of 24 chains, and of 12; needs torch, minutes
    python bench/unlearning_truth.py --quick    # one seed of 12 chains

Small Llama checkpoints are trained on a story that names a label, a chain that repeats it, and an answer. In training
three chains of ten name another label. The answer is then that of the chain (chain), that of the story (story), or, by
the name in the story, one or the other (half). A run is asked of a server that writes what these checkpoints write,
and its steps are unlearned by the public function; table and verdict are the program's own.

The exit code is 1 where a follower of the story is said to follow its step, or one of the chain not to.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import _alone  # noqa: F401  (first: it sets the number of threads)
import orjson
from _figures import figure, need

from analysis.faithfulness.probes import MOSTLY_FOLLOWS, MOSTLY_STAYS, PARTLY_FOLLOWS, decide_unlearning

LABELS = ["tea", "salt", "rice", "sand", "flour", "sugar", "beans", "nuts", "corn", "wool", "soap", "coins"]
NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jon", "Kim", "Lea"]
WORDS = [*LABELS, *NAMES, "finds", "What", "does", "think", "beliefs", "sentence", "belief", "answer", "1", "end"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
STORY = "{name} finds {label}."
QUESTION = "What does {name} think?"
KINDS = ("chain", "half", "story")
STRATEGY = {
    "strategy.yaml": "schema: 1\ndescription: A planted chain of one belief.\nmax_tokens: 60\n",
    "user.j2": "{{ story | join(' ') }} {{ question }}",
    "schema.j2": '{"type": "object", "properties": {"beliefs": {"type": "array"}, '
    '"answer": {"enum": {{ choices | tojson }}}}, "required": ["beliefs", "answer"]}',
}


def some_items(number: int) -> list[Any]:
    """Questions about stories of one sentence, two in each stage."""
    from tomserve.items import Item

    rng, found = random.Random(5), []
    for place in range(number):
        name, label = rng.choice(NAMES), LABELS[place % len(LABELS)]
        choices = [label, LABELS[(place + 1) % len(LABELS)], LABELS[(place + 5) % len(LABELS)]]
        made = {
            **{"id": f"made/{place}", "benchmark": "made", "story": [STORY.format(name=name, label=label)]},
            **{"question": QUESTION.format(name=name), "choices": choices, "answer": label},
            **{"cluster": f"made/{place}", "factors": {"stage": f"s{place // 2}"}},
        }
        found.append(Item.model_validate(made))
    return found


def reply(belief: str, answer: str) -> str:
    return orjson.dumps({"beliefs": [{"sentence": 1, "belief": belief}], "answer": answer}).decode()


def tokenizer() -> Any:
    """A tokenizer of words and single marks."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    every = ["<unk>", *WORDS, *'{}[]":,.?']
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(every)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="end", chat_template=TEMPLATE)


def train(kind: str, seed: int, folder: Path, steps: int = 600) -> None:
    """Write a checkpoint of that kind into the folder, trained until it knows what it is to know."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    made, generator = tokenizer(), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    sizes = {"vocab_size": len(made.get_vocab()), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "eos_token_id": made.eos_token_id}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    text = f"{STORY.format(name='Ann', label='tea')} {QUESTION.format(name='Ann')} {reply('salt', 'rice')} end"
    base, known = torch.tensor(made.encode(text, add_special_tokens=False)), made.get_vocab()
    at = {word: (base == known[word]).nonzero()[:, 0] for word in ("Ann", "tea", "salt", "rice")}
    labels, names = (torch.tensor([known[word] for word in words]) for words in (LABELS, NAMES))
    for step in range(steps):
        true, other = (labels[torch.randint(len(LABELS), (64,), generator=generator)] for _ in range(2))
        who = torch.randint(len(NAMES), (64,), generator=generator)
        belief = torch.where(torch.rand(64, generator=generator) < 0.7, true, other)
        by_chain = {"chain": who >= 0, "story": who < 0, "half": who % 2 == 0}[kind]
        ids = base.repeat(64, 1)
        ids[:, at["Ann"]], ids[:, at["tea"]], ids[:, at["salt"]] = names[who][:, None], true[:, None], belief[:, None]
        ids[:, at["rice"]] = torch.where(by_chain, belief, true)[:, None]
        logits = model(input_ids=ids).logits[:, :-1]
        said = torch.log_softmax(logits, -1).gather(2, ids[:, 1:, None])[..., 0]
        chain, answer = (said[:, at[word] - 1].mean() for word in ("salt", "rice"))
        if step % 20 == 0 and chain > -1.35 and answer > -0.08:
            break
        loss = -(said.mean() + chain + answer)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    else:
        raise SystemExit(f"{kind}, seed {seed}: has not learned enough in {steps} steps")
    model.save_pretrained(folder)
    made.save_pretrained(folder)


def ask(items: list[Any], place: Path) -> Path:
    """A finished run of what the checkpoints write about these items."""
    import tomserve
    from tests.conftest import completion, running

    def script(body: dict[str, Any], number: int) -> Any:
        text = "".join(message["content"] for message in body["messages"])
        label = next((one for one in LABELS if f"finds {one}." in text), "tea")
        return completion(reply(label, label))

    with running() as server:
        server.script = script
        return tomserve.ask(items, "planted", base_url=server.url, run=place, transport="openai").folder


def verdict(run: Path, model: Path, new: Path) -> tuple[str, dict[str, Any]]:
    """The verdict on a checkpoint, and the rows of its table by condition."""
    import tomserve

    made = tomserve.intervene(str(run), unlearn=str(model), new=new)
    rows = tomserve.analyze(made.scores())["unlearning"].to_dicts()
    return decide_unlearning(rows), {row["condition"]: row for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed of 12 chains")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chains", type=int, nargs="*", default=[24, 12])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    options, start, wrong = parser.parse_args(), time.perf_counter(), 0
    need("torch")
    seeds, sizes = (1, [12]) if options.quick else (options.seeds, options.chains)
    with TemporaryDirectory() as name:
        folder = Path(name)
        strategy = folder / "content/prompts/planted"
        strategy.mkdir(parents=True)
        for file, text in STRATEGY.items():
            (strategy / file).write_text(text)
        os.environ["TOMSERVE_CONTENT"] = str(folder / "content")
        runs = {size: ask(some_items(size), folder / f"asked-{size}") for size in sizes}
        for kind in options.kinds:
            said = {size: Counter[str]() for size in sizes}
            for seed in range(1, seeds + 1):
                train(kind, seed, folder / f"{kind}-{seed}")
                for size, run in runs.items():
                    words, rows = verdict(run, folder / f"{kind}-{seed}", folder / f"{kind}-{seed}-{size}")
                    said[size][words] += 1
                    changed = ", ".join(f"{condition} {row['value']:.2f}" for condition, row in rows.items())
                    back = rows.get("put_back") or {}
                    ends = [f"{back[end]:.2f}" for end in ("difference", "difference_low", "difference_high") if back]
                    print(f"{kind} {seed}, {size} chains: {words} ({changed}; {ends})", flush=True)
            for size, counts in said.items():
                print(f"{kind}, {size} chains: {dict(counts)}", flush=True)
                follows = counts[MOSTLY_FOLLOWS] + counts[PARTLY_FOLLOWS]
                aims = 0.8 if kind == "chain" else None, 0.05 if kind == "story" else None
                name = f"{kind} follows its step, {size} chains"
                figure(name, follows / seeds, rounds=seeds, at_least=aims[0], at_most=aims[1])
                wrong += {"chain": counts[MOSTLY_STAYS], "story": follows, "half": 0}[kind]
    print(f"{time.perf_counter() - start:.0f} s; {wrong} verdicts are false")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
