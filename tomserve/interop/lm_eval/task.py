"""The class of our tasks in lm-evaluation-harness: a chat is sent as a chat, and under the question's schema if wanted.

Prompts of lm-eval's own tasks are one text. Where it applies a chat template (``--apply_chat_template``), this one
hands over the messages of the strategy, each in its role, as `tomserve eval` sends them; elsewhere they stand below
each other in one text. With ``--metadata '{"schema": true}'`` every request has the JSON schema of its question, which
only models behind an OpenAI-compatible chat endpoint take (``--model local-chat-completions``). With both, what is
asked and how replies are read is the same as in `tomserve eval`. It needs lm_eval.
"""

from collections.abc import Callable
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from tomserve.errors import ConfigError
from tomserve.interop.lm_eval import functions


class TomserveTask(ConfigurableTask):  # type: ignore[misc]
    """A task whose questions, prompts and scores are those of a benchmark and a strategy of ours."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config={name: value for name, value in (config or {}).items() if name != "class"})

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int = 0,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., Any] | None = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """The prompt of a question: the chat of its strategy, as the model's chat template makes it, else one text.

        Raises ConfigError for a system message of the user's and for demonstrations of lm-eval's own, which have no
        place in it."""
        del fewshot_as_multiturn, gen_prefix
        if num_fewshot or system_instruction:
            raise ConfigError(
                f"{self.config.task}: system message and demonstrations are those of the strategy; leave "
                "--num_fewshot and --system_instruction out"
            )
        if apply_chat_template and chat_template is not None:
            return chat_template(functions.messages(doc))
        return functions.prompt(doc)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **given: Any) -> list[Instance] | Instance:
        """The request of a question, with its schema where the user wants that."""
        made = super().construct_requests(doc, ctx, **given)
        fields = functions.fields(doc, self.config.metadata or {})
        if fields:
            for one in made if isinstance(made, list) else [made]:
                one.arguments = (one.arguments[0], {**one.arguments[1], **fields})
        return made
