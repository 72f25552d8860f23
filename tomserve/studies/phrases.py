"""The phrases of all studies and of what stands beside their tables, by name: ``phrases.yaml`` beside this module.

>>> PHRASES["share_independent"][:38]
'The share of right answers; its 95% in'
"""

import re
from pathlib import Path

from tomserve.content.validation import load_yaml
from tomserve.scoring.baselines import KINDS

PHRASES = {"kinds": "; ".join(KINDS.values())}
for _name, _text in load_yaml(Path(__file__).with_suffix(".yaml"))[0].items():
    PHRASES[_name] = re.sub(r"\{(\w+)\}", lambda place: PHRASES.get(place[1], place[0]), _text)
