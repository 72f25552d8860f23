"""The words that generated Hi-ToM stories are made of: our own lists, longer than the paper's (30, 37, 39, 40).

>>> len(ROOMS), len(OBJECTS), len(CONTAINERS), len(AGENTS)
(36, 44, 48, 56)

No word is in two lists, none is in the released data file, and `waiting_room` is in no list. Containers are two words
with an underscore, each with a noun of its own, so that a reply in prose names one of them or none. Agents have given
names of many places and no gender that a story would need. Changing a list changes every generated story, and so the
digests that the tests pin.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ROOMS = _words(
    "library pavilion conservatory ballroom boathouse bakery chapel darkroom dormitory foyer gallery greenhouse "
    "gymnasium infirmary barn laboratory loft mudroom nursery observatory orangery parlor refectory sauna scullery "
    "solarium stable storeroom studio tearoom terrace vault veranda vestibule wardroom clubhouse"
)
OBJECTS = _words(
    "compass lantern marble whistle thimble locket postcard flute kite magnet stapler spoon candle ticket dice medal "
    "puppet hammer padlock ribbon snowglobe trophy wrench yoyo harmonica pencil calculator thermometer brooch chisel "
    "domino feather goblet hairbrush inkwell keyring lighter mitten napkin paintbrush ruler sponge teaspoon "
    "umbrella"
)
CONTAINERS = _words(
    "wicker_hamper oak_trunk leather_satchel rain_barrel glass_jar clay_urn tin_canister steel_locker paper_bag "
    "velvet_pouch filing_cabinet pine_sideboard walnut_wardrobe canvas_rucksack iron_safe cedar_chest tool_kit "
    "hat_case cookie_tin milk_churn wine_cask soup_tureen fruit_bowl sewing_caddy bread_bin coal_scuttle gift_carton "
    "jewel_casket mail_sack copper_kettle stone_trough brass_pail porcelain_vase silk_purse picnic_cooler plastic_tub "
    "bamboo_cradle maple_coffer straw_punnet garden_planter enamel_saucepan coin_bank wool_stocking card_folder "
    "moving_van wooden_hutch ceramic_crock toy_wagon"
)
AGENTS = _words(
    "Amara Bashir Chiara Dmitri Eilidh Farid Greta Hiroshi Ingrid Jomo Katya Lorenzo Marisol Nadia Oluwaseun Priya "
    "Quentin Rosalind Sanjay Tomoko Ulrich Valeria Winston Ximena Yusuf Zanele Anders Beatriz Cormac Delphine Esteban "
    "Fatima Gunnar Henrike Ibrahim Jasmina Kofi Leocadia Mirek Noor Otieno Pernille Rashida Soren Thandiwe Umberto "
    "Vikram Wilhelmina Xiomara Yevgenia Zoltan Aroha Bogdan Catalina Dagny Emeka"
)
ANIMALS = _words(
    "badger beetle donkey ferret goose heron lizard moth parrot rabbit squirrel toad owl otter iguana eagle"
)
"""What somebody saw."""
BELONGINGS = _words("scarf wallet passport notebook bracelet helmet sunglasses slippers cufflink earring")
"""What somebody lost."""
FOODS = _words("porridge custard lentils mustard noodles pickles radish sorbet rhubarb chutney apricot walnuts")
"""What somebody likes or dislikes, besides containers."""
