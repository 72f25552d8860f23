"""English words put in the place of others: their forms, and the articles before them."""

from tomserve.variants import words as variants_words


def test_articles_and_plurals_follow_the_word() -> None:
    an = ["urn", "uninformed", "hour", "oven", "honest", "Umbrella"]
    for word in [*an, "unit", "European", "house", "one", "usual", "utensil"]:
        article = "an" if word in an else "a"
        assert variants_words.article(word) == article, word
        assert variants_words.NounReplacer({"thing": word}).replace_all("A thing.") == f"{article.capitalize()} {word}."
    pairs = (
        "box boxes penknife penknives lorry lorries tray trays scarf scarves bench benches tin tins thermos thermoses"
    )
    words = [*pairs.split(), "snowman", "snowmen"]
    for one, several in zip(words[::2], words[1::2], strict=True):
        assert variants_words.plural(one) == several
        assert variants_words.looks_plural(several) or one == "snowman"
        assert not variants_words.looks_plural(one)
