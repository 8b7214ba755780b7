"""The documentation site: the pages of docs/, and pages that are generated from the code."""
