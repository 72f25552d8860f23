"""Prompts end right before the answer: with the reference tokenizer and with tokenizers of three other kinds."""

from typing import Any

import orjson
import pytest

from tests.conftest import ROOT, make_item
from tests.helpers import subjects
from tests.helpers.mechanism import cases, released
from tomserve.benchmarks.counterfactuals import Case
from tomserve.causal import prompts
from tomserve.causal.activations import Prompt
from tomserve.causal.prompts import CasePrompts, adapt_strategy, prompt_of, prompts_of
from tomserve.causal.table import FALSE, OWN, OWN_TWIN, TWIN
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy

transformers = pytest.importorskip("transformers")
MODEL = ROOT / "launch/reference/model"


@pytest.fixture(scope="module")
def reference() -> Any:
    return transformers.AutoTokenizer.from_pretrained(MODEL)


@pytest.fixture(scope="module")
def vanilla(reference: Any) -> Strategy:
    return adapt_strategy("vanilla", reference)


def made(prompt: Prompt | str) -> Prompt:
    assert isinstance(prompt, Prompt), prompt
    return prompt


TWO = make_item(choices=["tea", "salt"], gold=None)


def answered(choice: str) -> str:
    """The reply that gives this choice, as a server makes it."""
    return f'{{"answer":{orjson.dumps(choice).decode()}}}'


def chat(item: Item, strategy: Strategy, tokenizer: Any) -> str:
    messages = [*strategy.turn(item).messages]
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def with_template(model: Any, special: list[str], alphabet: list[str], texts: list[str], **unknown: str) -> Any:
    """A tokenizer trained on some texts, with a chat template."""
    from tokenizers import trainers

    told = {"special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    model.train_from_iterator(texts * 50, trainers.BpeTrainer(vocab_size=400, **told))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=model, **unknown)
    tokenizer.chat_template = subjects.TEMPLATE
    return tokenizer


def byte_level() -> Any:
    """A byte-level BPE tokenizer that merges a quotation mark with the letters behind it, over the prompt's end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    texts = ['"tea"}', '"salt"}', '"te', '"sa']
    return with_template(made, ["<|im_start|>", "<|im_end|>"], pre_tokenizers.ByteLevel.alphabet(), texts)


def sentence_piece() -> Any:
    """A tokenizer that marks the beginning of a word by "▁", as SentencePiece does."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    alphabet = [chr(number) for number in range(32, 127)] + ["▁", "\n"]
    texts = ['{"answer":"tea"}', '{"answer":"salt"}']
    return with_template(made, ["<unk>", "<|im_start|>", "<|im_end|>"], alphabet, texts, unk_token="<unk>")


@pytest.mark.parametrize("make", [byte_level, sentence_piece, subjects.tokenizer])
def test_a_prompt_and_a_choice_begin_the_reply_whatever_the_tokenizer(make: Any) -> None:
    tokenizer = make()
    strategy = adapt_strategy("vanilla", tokenizer)
    for order in (0, 1):
        prompt = made(prompt_of(TWO, strategy, tokenizer, order))
        shown = TWO.model_copy(update={"choices": TWO.choices[::-1] if order else TWO.choices})
        assert len(set(prompt.choices)) == 2
        for choice, token in zip(TWO.choices, prompt.choices, strict=True):
            whole = tokenizer.encode(chat(shown, strategy, tokenizer) + answered(choice), add_special_tokens=False)
            assert whole[: len(prompt.tokens) + 1] == [*prompt.tokens, token]
        if make is byte_level:  # the quotation mark is part of the choice's token
            assert tokenizer.decode(prompt.tokens).endswith('{"answer":')
            assert [tokenizer.decode([token])[:2] for token in prompt.choices] == ['"t', '"s']


def test_where_the_prompts_own_end_would_merge_the_reply_is_tokenised_alone() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}{{ ' \"t' }}"
    before = tokenizer.encode('x "t', add_special_tokens=False)
    assert tokenizer.encode('x "tea', add_special_tokens=False)[: len(before)] != before
    found = made(prompts._split_prompt('x "t', ["ea", "salt"], tokenizer))
    assert found.tokens[: len(before)] == tuple(before)


def test_both_orders_of_a_released_case(reference: Any, vanilla: Strategy) -> None:
    case = released("contents", 0)
    found = prompts_of(case, vanilla, reference)
    assert isinstance(found, CasePrompts)
    assert set(found.prompts) == {(told, order) for told in (FALSE, OWN, OWN_TWIN) for order in (0, 1)}
    for (told, order), prompt in found.prompts.items():
        item = {FALSE: case.f, OWN: case.own, OWN_TWIN: case.own_twin}[told]
        text = reference.decode(prompt.tokens)
        assert text.endswith('<|im_start|>assistant\n{"answer":"')
        listed = orjson.dumps(item.choices[::-1] if order else item.choices).decode()
        assert text.count("Labels: " + listed) == 1
        for choice, token in zip(item.choices, prompt.choices, strict=True):
            assert choice.startswith(reference.decode([token]))
    assert prompts_of(case, vanilla, reference, context=900) == found
    assert prompts_of(case, vanilla, reference, context=700) == prompts.TOO_LONG


@pytest.mark.parametrize(
    ("choices", "begun"),
    [
        (["I believe the jar holds tea", "I believe the jar holds salt"], '"I believe the jar holds'),
        (["red", "red box"], '"red'),
        (['the "old" jar', 'the "new" jar'], '"the \\"'),
        (["a\\b", "a\\c"], '"a\\\\'),
        (["Tür", "Tal"], '"'),
    ],
)
def test_what_all_choices_begin_with_belongs_to_the_prompt(
    choices: list[str], begun: str, reference: Any, vanilla: Strategy
) -> None:
    item = make_item(choices=choices, answer=choices[0], gold=None)
    prompt = made(prompt_of(item, vanilla, reference))
    assert reference.decode(prompt.tokens).startswith(chat(item, vanilla, reference))
    for choice, token in zip(choices, prompt.choices, strict=True):
        whole = reference.encode(chat(item, vanilla, reference) + answered(choice), add_special_tokens=False)
        assert whole[: len(prompt.tokens) + 1] == [*prompt.tokens, token]
    assert reference.decode(prompt.tokens).removesuffix("T").endswith(begun)


def test_reasons_to_leave_a_case_out(reference: Any, vanilla: Strategy) -> None:
    alike = make_item(choices=["salt box", "salt jar", "tea"], answer="tea", gold=None)
    assert prompt_of(alike, vanilla, reference) == prompts.SAME_TOKEN
    words = subjects.tokenizer()
    strange = make_item(choices=["tea", "quinoa"], gold=None)
    assert prompt_of(strange, adapt_strategy("vanilla", words), words) == prompts.NO_TOKEN
    case = cases(1)[0]
    every = prompts_of(case, adapt_strategy("vanilla", words), words)
    assert isinstance(every, CasePrompts)
    assert (len(every.prompts), (TWIN, 1) in every.prompts) == (8, True)
    fewer = case.own.model_copy(update={"choices": case.own.choices[:2]})
    assert prompts_of(Case(case.f, fewer, case.own_twin), vanilla, reference) == prompts.UNEVEN
    without_unknown = adapt_strategy("hitom_vanilla", reference)
    assert prompt_of(case.f, without_unknown, reference) == prompts.NOT_OFFERED
    assert isinstance(prompt_of(TWO, without_unknown, reference), Prompt)


def test_letters_follow_the_order_in_which_choices_are_shown(reference: Any) -> None:
    strategy = adapt_strategy("dyntom_vanilla", reference)
    item = make_item(choices=["tea", "salt", "rice"], gold=None)
    for order, letters in ((0, "ABC"), (1, "CBA")):
        prompt = made(prompt_of(item, strategy, reference, order))
        assert "".join(reference.decode([token]) for token in prompt.choices) == letters
        assert reference.decode(prompt.tokens).endswith('{"answer":"')
    item = make_item(choices=["red", "red box"], answer="red", gold=None)
    prompt = made(prompt_of(item, adapt_strategy("hitom_cot", reference), reference))
    assert reference.decode(prompt.tokens).endswith('{"answer":"red')
    assert [reference.decode([token]) for token in prompt.choices] == ['"', " "], "what follows the answer"


@pytest.mark.parametrize("name", ["cot", "letters", "simtom", "vanilla_free", "narrator"])
def test_strategies_that_do_not_answer_at_once_are_refused(name: str, reference: Any) -> None:
    with pytest.raises(ConfigError, match=f"strategy {name}: .*use a strategy") as caught:
        prompt_of(make_item(), adapt_strategy(name, reference), reference)
    assert "\n" not in str(caught.value)


def test_templates_that_there_are_not_or_that_think() -> None:
    tokenizer = subjects.tokenizer()
    strategy = adapt_strategy("vanilla", tokenizer)
    switched = "{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}"
    tokenizer.chat_template = subjects.TEMPLATE + switched
    assert isinstance(prompt_of(TWO, strategy, tokenizer), Prompt)
    tokenizer.chat_template = subjects.TEMPLATE + "<think>\n"
    with pytest.raises(ConfigError, match="opens a thought"):
        prompt_of(TWO, strategy, tokenizer)
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match=r"has no chat template.*Instruct.*chat_template\.jinja"):
        adapt_strategy("vanilla", tokenizer)


def test_a_model_without_system_messages_gets_their_text_from_the_user() -> None:
    tokenizer = byte_level()
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    tokenizer.chat_template = refuses + subjects.TEMPLATE
    strategy = adapt_strategy("vanilla", tokenizer)
    prompt = made(prompt_of(TWO, strategy, tokenizer))
    assert "user\nYou answer questions about short stories." in tokenizer.decode(prompt.tokens)
    with pytest.raises(ConfigError, match=r"cannot show the strategy's messages .no system."):
        prompt_of(make_item(), Strategy.load("vanilla"), tokenizer)
