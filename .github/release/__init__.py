"""What a release needs beside the package: man pages, completions, checks of a release, tests of a wheel."""
