"""Steps for the pipelines of other tools. tokfmt neither imports nor installs these tools."""
