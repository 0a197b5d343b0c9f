"""Our own task set: 60 questions over the records of a ferry company, graded without a person."""
