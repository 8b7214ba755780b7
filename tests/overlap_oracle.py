"""The overlap of evals with documents by sets of n-grams in Python, which shares no code with tokfmt."""

import unicodedata

ALONE = [("\u3041", "\u30ff"), ("\u4e00", "\u9fff"), ("\U00020000", "\U0003347f")]


def words(text):
    """The words of a text in lower case; Chinese characters and kana are alone."""
    found, word = [], ""
    for character in text.lower():
        is_alone = any(low <= character <= high for low, high in ALONE)
        if in_word(character) and not is_alone:
            word += character
            continue
        if word:
            found.append(word)
        if in_word(character):
            found.append(character)
        word = ""
    return [*found, *([word] if word else [])]


def in_word(character):
    return unicodedata.category(character)[0] in "LMN"


def grams(item, n):
    return [tuple(item[k : k + n]) for k in range(len(item) - n + 1)]


def overlap(evals, documents, n):
    """For each item of lists of lists with a hit: n-grams, found, longest run, documents with one, the first of them."""
    held = [set(grams(document, n)) for document in documents]
    everything = set().union(*held)
    result = {}
    for number, item in enumerate(evals):
        own = grams(item, n)
        found = [one in everything for one in own]
        if not any(found):
            continue
        runs, run = [0], 0
        for one in found:
            run = run + 1 if one else 0
            runs.append(run + n - 1 if run else 0)
        those = [k for k, one in enumerate(held) if not one.isdisjoint(own)]
        result[number] = (len(own), sum(found), max(runs), len(those), those[:3])
    return result


def hit(evals, documents, n):
    """The numbers of the documents that hold an n-gram of an item."""
    every = {one for item in evals for one in grams(item, n)}
    return [k for k, document in enumerate(documents) if not every.isdisjoint(grams(document, n))]
