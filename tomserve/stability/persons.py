"""Words for persons other than names: whom a pronoun could mean besides the person whose name a story gives.

>>> [match[0] for match in PERSON.finditer("Her coworker and two chefs see the potter's wheel.")]
['coworker', 'chefs', 'potter']
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tomserve.stability.wordlists import alternatives, listed

Gender = str
"""Which pronouns a person has: MAN, WOMAN or EITHER."""

MAN, WOMAN, EITHER = "man", "woman", "either"

_GENDERED = listed("""
    man men woman women boy boys girl girls gentleman gentlemen lady ladies guy guys lad lass mother mothers
    father fathers mom mum dad mummy daddy mommy son sons daughter daughters brother brothers sister sisters aunt
    aunts uncle uncles niece nieces nephew nephews grandmother grandmothers grandfather grandfathers grandma
    grandpa grandson granddaughter husband husbands wife wives boyfriend girlfriend bride groom bridegroom fiancé
    fiancée widow widower king queen prince princess duke duchess emperor empress actress actor waitress waiter
    hostess host stewardess steward heroine hero monk nun priest priestess goddess witch wizard godmother
    godfather stepmother stepfather landlord landlady barmaid maid milkmaid nanny dairymaid cowboy cowgirl
    schoolboy schoolgirl policewoman seamstress abbess countess tailoress masseuse ballerina mademoiselle señor
    señora sir madam mr mrs ms miss
""")
"""Nouns and titles that say whether somebody is a man or a woman."""

_NO_MEN = listed("""
    human humans specimen omen stamen ramen amen abdomen acumen regimen german roman talisman ottoman caiman
""")
_GENDERED_END = rf"(?!(?:{alternatives(_NO_MEN)})\b)\w+m[ae]n"
"""Words such as "fisherman" and "craftswomen"."""

_NEUTRAL = listed("""
    person people someone somebody anyone anybody everyone everybody nobody stranger friend neighbor neighbour
    child children kid baby toddler infant teenager adult parent sibling cousin twin relative spouse partner
    colleague coworker co-worker boss employee staff crew intern apprentice assistant helper guest visitor
    customer client patron tourist traveler traveller passenger passerby passer-by bystander onlooker spectator
    student pupil classmate teammate roommate flatmate chef cook nurse guard guide clerk judge coach pilot thief
    vandal artist florist dentist scientist chemist biologist archaeologist receptionist journalist pianist
    guitarist cyclist pharmacist activist musician technician electrician physician magician librarian politician
    pedestrian guardian veterinarian historian mechanic architect critic attendant accountant agent resident
    merchant servant tenant lieutenant sergeant expert athlete captain thug youth caretaker host bartender member
    villager farmer owner worker baker teacher gardener painter potter sculptor tailor doctor actor director
    conductor professor instructor inspector supervisor manager player singer dancer driver photographer designer
    engineer hiker camper hunter diver sailor soldier officer firefighter programmer developer researcher writer
    author reporter editor carpenter plumber builder jeweler jeweller butcher grocer vendor seller buyer shopper
    barber hairdresser cleaner janitor waiter server deliverer messenger courier trainer swimmer runner climber
    skier surfer trader broker banker lawyer prisoner robber burglar intruder speaker listener reader leader
    follower winner beginner stagehand newcomer elder senior junior monk priest bachelor competitor collaborator
    contractor operator curator performer organizer organiser caterer blacksmith locksmith goldsmith shepherd
    herder weaver knitter barista sommelier surgeon therapist counselor counsellor detective spy mayor president
    minister prankster beekeeper shopkeeper goalkeeper zookeeper innkeeper housekeeper trespasser
""")
"""Nouns that may mean a man as well as a woman; of all of them a plural in -s counts, too."""

_TITLES = listed("""
    Mr Mrs Ms Miss Sir Madam Madame Lady Lord King Queen Prince Princess
""")


def _pattern(words: Iterable[str], more: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:(?:{alternatives(words)})(?:e?s)?|{more})(?![\w-])", re.I)


PERSON = _pattern(_NEUTRAL | _GENDERED, _GENDERED_END)
"""A word for a person or several."""

GENDERED = _pattern(_GENDERED, _GENDERED_END)
"""A word that says that somebody is a man, or a woman."""

TITLE = re.compile(rf"(?<!\w)(?:{alternatives(_TITLES)})\.?\s+$")
"""What stands before a name and says that its bearer is a man, or a woman."""
