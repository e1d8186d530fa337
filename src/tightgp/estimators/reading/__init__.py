"""How columns of text are read as what they mean: numbers, dates, levels. The command line reads files by it too."""
