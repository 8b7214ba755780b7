"""The formats of tokfmt: one module or package each, with byte table, options, reader, writer, check and `FORMAT`."""
