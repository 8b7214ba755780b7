"""Steps for the pipelines of other tools. Nothing else of tokfmt imports them, nor do they come with it."""
