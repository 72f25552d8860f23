"""Names of persons by the culture that they are common in.

>>> CULTURES["Kofi"], CULTURES["Takumi"]
('Akan', 'Japanese')
"""

from __future__ import annotations

from tomserve.stability.persons import EITHER, MAN, WOMAN

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
