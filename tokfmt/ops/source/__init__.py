"""How every command comes to a dataset: what is asked for, opening it, its records as tokens, its manifest."""
