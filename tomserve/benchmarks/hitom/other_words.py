"""The words that variants of Hi-ToM stories are told with, besides those of words.py: other people, other containers.

>>> len(OTHER_AGENTS), len(OTHER_CONTAINERS), len(COLOURS)
(64, 60, 8)

No word is in a list of words.py or in the released file. A container is closed and cannot be seen through, nor does a
label say what is in it, since such a container would show what it holds; and each has a noun of its own, so that a
reply in prose names one of them or none. No name begins another. Changing a list changes variants, but no story.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OTHER_AGENTS = _words(
    "Adaeze Alejandra Anouk Arjun Astrid Ayumi Babajide Bronwyn Camila Chukwudi Daichi Daria Dinesh Edwige Eleni "
    "Faisal Fernanda Florian Goran Guadalupe Haruka Hyejin Ileana Iskander Jakub Javier Joaquina Kalani Kaveh Kwame "
    "Lakshmi Leilani Luca Magdalena Malik Meera Minh Mustafa Nkechi Oksana Omar Paolo Parisa Qiang Radu Ravindra Ruta "
    "Saoirse Seung Shirin Siobhan Tariq Tevita Thuy Uzoma Vasilis Wambui Wojciech Xiulan Yaaseen Yolanda Zuzana "
    "Tendai Ngaire"
)
OTHER_CONTAINERS = _words(
    "tartan_suitcase birch_cupboard tweed_handbag bronze_strongbox ebony_cabinet mahogany_dresser denim_backpack "
    "travel_valise cotton_duffel army_footlocker lacquer_box felt_holdall lawyer_briefcase rosewood_armoire "
    "spruce_crate oaken_humidor leatherette_case camphor_chest pewter_caddy hooped_keg larch_barrel stoneware_pot "
    "oval_tin round_canister corduroy_pouch gingham_bag padded_ottoman hemp_knapsack linen_pillowcase teak_bureau "
    "beech_drawer zinc_tank rolltop_desk voyage_trunk corner_credenza bedside_nightstand hallway_tallboy suede_clutch "
    "nylon_sleeve vinyl_folio poplar_casket plywood_hutch sandalwood_coffer chrome_tube titanium_safe striped_carton "
    "lambskin_purse burlap_sack saddle_pannier mule_saddlebag postman_mailbag ribboned_package waxed_packet "
    "quilted_satchel oblong_bandbox apothecary_locker evening_reticule brick_bunker dented_drum harbour_container"
)
COLOURS = _words("yellow purple orange black brown pink grey white")
"""What takes the place of the colour in a container such as red_box."""
RELEASED_COLOURS = _words("red blue green")
"""The colours of the released file."""
