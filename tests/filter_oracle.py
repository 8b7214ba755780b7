"""The rules of filters as their words say, character by character; shares no code with tokfmt."""

import unicodedata

RULES = ("min_words", "min_chars", "max_symbol_ratio", "max_char_repetition", "min_word_diversity", "max_word_share")


def value_of(text, rule):
    """What a text has of what a rule is about."""
    words = text.split()
    solid = [c for c in text if not c.isspace()]
    if rule == "min_words":
        return len(words)
    if rule == "min_chars":
        return len(text)
    if rule == "max_symbol_ratio":
        letters = sum(unicodedata.category(c)[0] in "LMN" for c in solid)
        return (len(solid) - letters) / letters if letters else float("inf")
    if rule == "max_char_repetition":
        inside = start = 0
        for k in range(1, len(text) + 1):
            if k == len(text) or text[k] != text[start]:
                inside += (k - start) * (k - start > 4 and not text[start].isspace())
                start = k
        return inside / len(solid) if solid else 0
    first = words[:1000]
    if rule == "min_word_diversity":
        return len(set(first)) / len(first) if first else 1
    return max(map(first.count, set(first))) / len(first) if first else 0


def broken(text, thresholds):
    """The first rule that a text breaks and its value; None when it passes."""
    for rule in RULES:
        threshold = thresholds.get(rule)
        if threshold is not None:
            value = value_of(text, rule)
            if value < threshold if rule.startswith("min") else value > threshold:
                return rule, value
    return None
