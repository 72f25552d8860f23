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
    "parcel_crate cigar_humidor trumpet_case medicine_chest pewter_caddy powder_keg cider_barrel pepper_pot snuff_tin "
    "film_canister tobacco_pouch flour_bag quilt_ottoman hemp_knapsack linen_pillowcase teak_bureau beech_drawer "
    "zinc_tank rolltop_desk blanket_trunk corner_credenza bedside_nightstand hallway_tallboy suede_clutch nylon_sleeve "
    "vinyl_folio poplar_casket plywood_hutch sandalwood_coffer chrome_breadbox titanium_safe ration_carton "
    "lambskin_purse burlap_sack saddle_pannier mule_saddlebag postman_mailbag birthday_package seed_packet "
    "fishing_creel hatter_bandbox apothecary_locker evening_reticule peat_bunker oil_drum harbour_container"
)
COLOURS = _words("yellow purple orange black brown pink grey white")
"""What takes the place of the colour in a container such as red_box."""
RELEASED_COLOURS = _words("red blue green")
"""The colours of the released file."""
