"""One module (or package) a format: byte table, options, reader, writer, checker, FORMAT."""
