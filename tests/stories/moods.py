"""What a small language model did wrong when it was tried (`make live`), as moods of the scripted one.

Seen with SmolLM2-135M at windows of 2,048 and 8,192: answers that repeat themselves to the limit, an echo of the order in place of a
summary, prose where a tool was to be called, and what llama.cpp's servers do with a prompt
that is longer than their window.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from tests.stories.model import Asked, Said, text_of

LOOP = "I'm sorry. I'm sorry, I'm not sure what you mean. "
"""What was written 25 times in one answer."""
PROSE = "I have written that into your memory. I will remind you."
CHAT = "Well, well. " + "So it is, as they say in town, and who would doubt it? " * 3
ABOUT_THE_ORDER = (
    (
        "# Goal:\nThis is a request to fix the current messages. Please update this list with all of them and send it off, as "
        "you've asked.\n"
        "There are no added details or blocks within the summary yet so please do not continue."
    ),
    (
        "The latest 2 messages stay as they are; everything before them is replaced.\nA new, improved version of the story with details "
        "about what was left out will be sent to a different location at an exact time, that is to be completed tomorrow."
    ),
)
"""Two summaries as they were written: they speak of the order, and of nothing that was said."""
USUAL_SHARE = 4
"""Characters a token, by which this server counts."""


@dataclass
class Small:
    """A model with a window of ``window`` tokens that does all of it wrong; every third answer is a loop.

    hangs_up: whether it closes the stream where the prompt is too long, as llama-cpp-python's server does; else it refuses in words,
        as llama.cpp's own server does. It then has no form for tools either, and drops them.
    """

    window: int
    hangs_up: bool = False
    refused: int = 0
    summaries: int = 0
    flushes: int = 0
    prompts: list[str] = field(default_factory=list)
    largest: int = 0

    def __call__(self, asked: Asked) -> Said:
        size = len(json.dumps(asked.body["messages"])) // USUAL_SHARE
        if not self.hangs_up:
            size += len(json.dumps(asked.body.get("tools") or [])) // USUAL_SHARE
        if size > self.window:
            self.refused += 1
            return Said(hangs_up=True) if self.hangs_up else Said(refusal=overflow(size, self.window))
        self.largest = max(self.largest, size)
        if asked.is_flush:
            self.flushes += 1
            return Said(PROSE)
        number = re.search(r"number-(\d+)", asked.last_words)
        if number is None:
            self.summaries += 1
            if self.summaries % 3:
                return Said(ABOUT_THE_ORDER[self.summaries % 3 - 1])
            return Said(f"{asked.last_words.strip()[:300]}\n{'### Use a word. ' * 20}", why="length")
        self.prompts.append("\n".join(text_of(one) for one in asked.messages))
        if int(number[1]) % 3 == 2:
            return Said(f"heard {number[1]} {LOOP * 60}", why="length")
        return Said(f"heard {number[1]}. {PROSE if 'remember' in asked.last_words else CHAT}")


def overflow(asked: int, window: int) -> dict[str, object]:
    """Return llama.cpp's refusal, as its server words it."""
    told = f"the request exceeds the available context size ({window} tokens), try increasing it"
    return {"code": 400, "message": told, "type": "exceed_context_size_error", "n_prompt_tokens": asked, "n_ctx": window}
