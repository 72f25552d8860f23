"""Names of persons: which a text has, which others they may get, their cultures and genders.

>>> find_people(["Noor is a chef in Paris.", "Noor sees Liam leave.", "Liam, who is late, believes that it rains."])
('Noor', 'Liam')
>>> names_asked_about("What does Ann Marie believe?", ["The box is shut.", "Ann Marie looks."])
('Ann Marie',)
>>> CULTURES["Kofi"], CULTURES["Takumi"]
('Akan', 'Japanese')
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from tomserve.items.draw import seeded_rank
from tomserve.variants.words import alternatives, word_set

Gender = str
"""Which pronouns a person has: MAN, WOMAN or EITHER."""

MAN, WOMAN, EITHER = "man", "woman", "either"

_GENDERED = word_set("""
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

_NO_MEN = word_set("""
    human humans specimen omen stamen ramen amen abdomen acumen regimen german roman talisman ottoman caiman
""")
_GENDERED_END = rf"(?!(?:{alternatives(_NO_MEN)})\b)\w+m[ae]n"
"""Words such as "fisherman" and "craftswomen"."""

_NEUTRAL = word_set("""
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

_TITLES = word_set("""
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


NAMES = {
    "Akan": {WOMAN: "Abena Efua Akosua", MAN: "Kwabena Yaw Kojo"},
    "Amharic": {WOMAN: "Tigist Genet Hirut", MAN: "Dawit Girma Bekele"},
    "Arabic": {WOMAN: "Khadija Rania Yasmin", MAN: "Hamid Walid Youssef", EITHER: "Nour"},
    "Armenian": {WOMAN: "Anahit Gayane Siranush", MAN: "Hrant Vahan Tigran"},
    "Basque": {WOMAN: "Nekane Itziar", MAN: "Unai Iker Xabier"},
    "Chinese": {WOMAN: "Xiulan Jiayi Qiuyue", MAN: "Zhiqiang Guowei Jianjun", EITHER: "Xiaoyu"},
    "Finnish": {WOMAN: "Kirsi Outi Päivi", MAN: "Heikki Urho Jouni"},
    "French": {WOMAN: "Elodie Odette", MAN: "Baptiste Thierry", EITHER: "Camille"},
    "Georgian": {WOMAN: "Nino Ketevan", MAN: "Vakhtang Otar Zurab"},
    "German": {WOMAN: "Liesel Ursula Heike", MAN: "Jürgen Uwe Wolfgang", EITHER: "Kim"},
    "Hawaiian": {WOMAN: "Leilani Haunani", MAN: "Ikaika Kimo", EITHER: "Keahi"},
    "Hebrew": {WOMAN: "Ofra Yael Tirza", MAN: "Eitan Gilad Yaakov", EITHER: "Lior Noam"},
    "Hindi": {WOMAN: "Priya Lakshmi Vasudha", MAN: "Vikram Arjun Ramesh", EITHER: "Kiran"},
    "Hungarian": {WOMAN: "Emese Zsuzsa", MAN: "Gergely Zoltan"},
    "Igbo": {WOMAN: "Adaeze Ifeoma", MAN: "Chidi Obinna", EITHER: "Uche"},
    "Irish": {WOMAN: "Siobhan Orla Aoife", MAN: "Cormac Eoin Fergus", EITHER: "Quinn"},
    "Italian": {WOMAN: "Ginevra Fiorella", MAN: "Fabrizio Lorenzo"},
    "Japanese": {WOMAN: "Yukiko Emiko Fumiko", MAN: "Daichi Takeshi Jiro", EITHER: "Akira Hinata"},
    "Korean": {WOMAN: "Eunji Hyejin", MAN: "Dongwook Junho", EITHER: "Jiwon"},
    "Maori": {WOMAN: "Aroha Ngaire", MAN: "Wiremu Tane", EITHER: "Kiri"},
    "Mongolian": {WOMAN: "Oyuna Sarangerel", MAN: "Batu Ganbold", EITHER: "Enkh"},
    "Norwegian": {WOMAN: "Ragnhild Ingrid Solveig", MAN: "Gunnar Leif Odd-Arne"},
    "Persian": {WOMAN: "Bahareh Shirin", MAN: "Farhad Behzad"},
    "Polish": {WOMAN: "Jadwiga Zofia", MAN: "Janusz Wojciech"},
    "Portuguese": {WOMAN: "Beatriz Leonor", MAN: "Tiago Vasco"},
    "Quechua": {WOMAN: "Urpi Illari", MAN: "Inti Yupanqui"},
    "Romanian": {WOMAN: "Ioana Viorica", MAN: "Bogdan Dragos"},
    "Spanish": {WOMAN: "Violeta Ximena", MAN: "Fernando Emilio", EITHER: "Guadalupe"},
    "Sinhala": {WOMAN: "Dilini Upeksha", MAN: "Upul Nuwan"},
    "Swahili": {WOMAN: "Wanjiru Zawadi", MAN: "Kamau Juma", EITHER: "Imani"},
    "Tamil": {WOMAN: "Meenakshi Thamarai", MAN: "Murugan Senthil"},
    "Tibetan": {WOMAN: "Dolma Pema", MAN: "Dorje Rinchen", EITHER: "Tenzin"},
    "Turkish": {WOMAN: "Aylin Zeynep", MAN: "Mehmet Burak", EITHER: "Deniz"},
    "Ukrainian": {WOMAN: "Oksana Kateryna", MAN: "Ostap Yevhen", EITHER: "Sasha"},
    "Uzbek": {WOMAN: "Dilnoza Nilufar", MAN: "Ulugbek Jasur"},
    "Vietnamese": {WOMAN: "Quyen Hoa", MAN: "Quang Dung", EITHER: "Linh"},
    "Welsh": {WOMAN: "Bronwen Carys", MAN: "Emrys Rhys", EITHER: "Eirian"},
    "Xhosa": {WOMAN: "Nomvula Thandiwe", MAN: "Xolani Sipho", EITHER: "Ayanda"},
    "Yoruba": {WOMAN: "Folasade Yewande", MAN: "Babajide Tunde", EITHER: "Ayo"},
}
"""Names by culture and by the pronoun of their bearers; EITHER: of women and men alike."""

_FURTHER = {
    "Akan": "Kofi Kwame Kwasi Ama Akua",
    "Amharic": "Abebe Selam",
    "Arabic": "Ahmed Ali Aisha Amina Farid Fatima Hassan Ibrahim Jamila Karim Laila Layla Leila Mohammed Mustafa "
    "Noor Omar Rashid Rashida Salma Samira Tariq Yara Yasmine Zahra",
    "Chinese": "Chen Cheng Jia Li Lin Ming Wei Xia Xiao Ying",
    "English": "Alex Alice Amy Andrew Ann Anna Anne Anthony Barbara Beatrice Ben Betty Bill Bob Brian Caden Carol "
    "Charles Chris Daniel David Delia Donald Donna Dorothy Edward Eliza Elizabeth Ella Emily Emma Ethan "
    "Frank George Grace Henry Imogen Isabella Jack Jacob James Jane Janelle Jason Jennifer Jessica Jim "
    "Joe John Jordan Joseph Joshua Julia Julie Karen Kate Kevin Kieran Larry Laura Liam Linda Lisa Lucy "
    "Maggie Margaret Maria Mark Martin Mary Matthew Max Michael Mike Molly Nancy Noah Olivia Oliver Pat "
    "Patricia Paul Percival Peter Quincy Rachel Richard Robert Ronald Rose Ruth Ryan Sally Sam Samuel "
    "Sandra Sarah Scott Simon Sophia Stephen Steve Susan Tabitha Thomas Tim Tom William Winston",
    "French": "Amaury Claire Giselle Heloise Henri Jean Jules Luc Marie Pierre",
    "German": "Hans Heinz Karl Klaus",
    "Greek": "Dimitri Nikos Thalia",
    "Hawaiian": "Ailani",
    "Hebrew": "Ezekiel Gideon Moshe Uriel",
    "Hindi": "Aarav Abhay Amit Amrita Aniket Anjali Chitra Daya Deepak Devika Kalyani Kavi Kavya Kunal Naveen Neha "
    "Raj Ravi Rohan Rohit Surya Uma",
    "Igbo": "Emeka Ngozi Nkiru Nneka",
    "Italian": "Bianca Giovanni Giulia Leonardo Marco",
    "Japanese": "Aiko Haruki Heiwa Hiro Hiroshi Kenji Sakura Takumi Yoshi Yuki",
    "Korean": "Minho Soojin",
    "Persian": "Darius Farhan Reza",
    "Portuguese": "Isabela João Mateus",
    "Russian": "Boris Dmitri Igor Ivan Ivana Nadia Natasha Olga Sergei Svetlana Tanya Vladimir",
    "Spanish": "Alejandro Alfonso Carlos Carmen Diego Emilia Enrique Imelda Isabel Jorge José Juan Juanita Luis "
    "Manuel Mateo Miguel Pablo Pedro Ramon Santiago Sofia Valentina Xiomara",
    "Sotho": "Naledi Tumelo",
    "Swahili": "Nia",
    "Turkish": "Emre Kamila",
    "Yoruba": "Odion Olabisi Olumide",
}
"""More names by culture: those that a text may have, and that none gets."""

CULTURES = {name: one for one, names in _FURTHER.items() for name in names.split()} | {
    name: one for one, of in NAMES.items() for names in of.values() for name in names.split()
}
"""The culture of each name that is listed here."""


_MIND = word_set("""
    believes wants thinks knows hopes wishes sees notices hears feels realizes realises discovers remembers forgets
    assumes expects decides plans intends needs likes loves reads says tells asks replies explains promises
    understands wonders guesses learns watches observes looks spots finds overhears witnesses smiles laughs
    believed wanted thought knew hoped wished saw noticed heard felt realized realised discovered remembered forgot
    assumed expected decided planned intended needed liked loved said told asked replied explained promised
    understood wondered guessed learned watched observed looked spotted found overheard witnessed smiled laughed
    walks walked enters entered leaves left goes went comes came puts put takes took picks picked brings brought
    buys bought cooks cooked
""")
"""Verbs by which somebody is known for a person."""

_NO_NAMES = word_set("""
    a an the this that these those he she it they we i you his her its their our my your who what where when why
    which how whose if as at in on by to of for from with without while after before during since until because
    although though but and or nor so yet then there here now today yesterday tomorrow later soon suddenly finally
    meanwhile however instead eventually unfortunately fortunately luckily nobody somebody someone everyone everybody
    anyone nothing something everything each every all some many most no not one two three another other both few
    does did do is are was were will would can could has have had never always often once upon just only even also
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december christmas easter internet god earth
""")
"""Words with a capital letter that are no names."""

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w'’-]*(?<!['’]s)(?<!['’])"
_NAME = rf"{_CAPITAL}(?: {_CAPITAL})*"
_ASKED = re.compile(
    rf"\b(?:[Dd]oes|[Dd]id|[Dd]o|[Ww]ill|[Ww]ould|[Ii]s|[Ww]as|[Cc]an|[Cc]ould|[Hh]as)\s+(?P<name>{_NAME})"
)
_DOES = re.compile(
    rf"(?P<name>{_NAME})(?:,[^.,;]*,|\s+(?:also|still|always|then|now|never|only|really|firmly|quickly|carefully|"
    rf"immediately|accidentally))?"
    rf"\s+(?:(?:does|did|do|will|would|can|could|has|had)(?:\s+not|n['’]t)?\s+\w+|(?P<mind>{alternatives(_MIND)})\b)"
)
_IS = re.compile(
    rf"(?P<name>{_NAME})(?:,[^.,;]*,)?\s+(?:is|was)\s+(?:(?:currently|also|now)\s+)?(?:an?\s|working|\w+ing\b)"
)
_PLACE = r"[Ii]n|[Oo]f|[Aa]t|[Oo]ff|[Nn]ear|[Oo]n|[Tt]hrough|[Aa]cross|[Oo]utside|[Ff]rom|[Ii]nto"
_PREPOSITION = re.compile(rf"\b(?:(?:{_PLACE}|[Tt]he|[Aa]n?)\s+|(?:{_PLACE})\s+{_NAME},\s+)$")
_ARTICLE = re.compile(r"\b(?:[Tt]he|[Aa]n?)\s+$")
"""What stands before the name of a place, but never before that of a person."""


def find_people(story: Sequence[str]) -> tuple[str, ...]:
    """The names of the persons of a story, in the order in which they are mentioned first.

    A word with a capital letter is a name where it has a verb that only persons have ("believes"), or where it is said
    to be something or to do something and never follows "in", "of" or the like; never after an article.
    """
    text = "\n".join(story)
    found: dict[str, bool] = {}
    for match in (*_DOES.finditer(text), *_IS.finditer(text)):
        name = _strip_openers(match["name"])
        found[name] = found.get(name, False) or match.groupdict().get("mind") is not None
    names = [name for name, sure in found.items() if name and not _is_place(name, text, sure=sure)]
    return tuple(sorted(names, key=lambda name: _first(name, text)))


_BESIDE = re.compile(
    rf"(?:,|\b(?:and|or|with|by|that|while|when|as|because|if|before|after|until|unless|whether|tells?|told|asks?|asked|"
    rf"calls?|called|gives?|gave|sees|saw|meets?|met|helps?|helped|friend|brother|sister|mother|father|son|daughter|"
    rf"husband|wife|uncle|aunt|cousin|colleague|coworker|neighbou?r|assistant|boss|named))\s+(?P<name>{_CAPITAL})"
)


_BEGINS = re.compile(rf"({_CAPITAL})\s+\w+(?:s|ed)\b")


def find_possible_names(story: Sequence[str]) -> tuple[str, ...]:
    """Words that may be names besides those of `find_people`, since they stand where a name would, such as after "and"
    or "her brother"; each in the order of its first mention."""
    text = "\n".join(story)
    found = dict.fromkeys(_strip_openers(match["name"]) for match in _BESIDE.finditer(text))
    return tuple(name for name in found if name and not _is_place(name, text))


def find_openers(story: Iterable[str]) -> set[str]:
    """Words that begin a sentence and have a verb right after them, so that they may be names: "Ben moves"."""
    found = (match[1] for match in map(_BEGINS.match, story) if match is not None)
    return {word for word in found if word.lower() not in _NO_NAMES}


def names_asked_about(question: str, story: Sequence[str]) -> tuple[str, ...]:
    """The names in a question about a person's mind or doings, of those that the story has: "Does Ann ...?"."""
    text = "\n".join(story)
    names = (_strip_openers(match["name"]) for match in _ASKED.finditer(question))
    return tuple(dict.fromkeys(name for name in names if name and occurs(name, text)))


def find_capitalised(texts: Iterable[str]) -> set[str]:
    """All words with a capital letter that may be names, also of places."""
    words = {word for text in texts for word in re.findall(_CAPITAL, text)}
    return {word for word in words if word.lower() not in _NO_NAMES}


def occurs(name: str, text: str) -> bool:
    """Whether a name stands in a text as a word of its own."""
    return name in text and name_pattern(name).search(text) is not None


@lru_cache(maxsize=4096)
def name_pattern(name: str) -> re.Pattern[str]:
    """A pattern for a name that is a word of its own, with or without "'s"."""
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _strip_openers(name: str) -> str:
    """The name without words that only have a capital letter because a sentence begins with them."""
    words = name.split(" ")
    while words and words[0].lower() in _NO_NAMES:
        words.pop(0)
    return " ".join(words)


def _first(name: str, text: str) -> int:
    found = name_pattern(name).search(text)
    return found.start() if found else len(text)


def _is_place(name: str, text: str, *, sure: bool = False) -> bool:
    """Whether a name stands where only that of a place does. sure: whether it has the verb of a person, so that only
    an article speaks against it."""
    before = _ARTICLE if sure else _PREPOSITION
    found = (
        match for match in name_pattern(name).finditer(text) if text[match.end() : match.end() + 1] not in ("'", "’")
    )
    return any(before.search(text[max(0, match.start() - 40) : match.start()]) for match in found)


def choose_names(names: Sequence[tuple[str, Gender]], seed: str, taken: Collection[str]) -> dict[str, str] | None:
    """A new name for each name, of another culture; None where there are not enough.

    names: the old names, each with the pronoun of the new one's bearer (EITHER: a name that women and men have).
    seed: what the names are drawn by; the same seed gives the same names. taken: words with capital letters of the
    story: no new name begins like one of them, or like another new one.
    """
    initials = {word[0].casefold() for word in taken}
    made: dict[str, str] = {}
    cultures = {CULTURES.get(name) for name, _ in names}
    for old, gender in names:
        free = [
            (one, name)
            for one, of in NAMES.items()
            if one not in cultures
            for name in of.get(gender, "").split()
            if name[0].casefold() not in initials
        ]
        if not free:
            return None
        one, name = min(free, key=lambda found: seeded_rank(seed, old, found[1]))
        made[old] = name
        cultures.add(one)
        initials.add(name[0].casefold())
    return made
