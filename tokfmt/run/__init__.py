"""Plans and how they are carried out: serial, threads, processes."""
