"""The data of the demo: a database of orders and a folder of notes, made on first use."""

import os
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

ORDERS = [
    ("Alba", "espresso", 14, 12.5),
    ("Borg", "filter", 9, 10.0),
    ("Alba", "grinder", 1, 89.0),
    ("Cruz", "espresso", 20, 12.5),
    ("Alba", "filter", 6, 10.0),
    ("Borg", "scale", 2, 34.9),
]
DISCOUNT_PERCENT = {"Alba": 8, "Cruz": 5, "Borg": 0}
NOTES = {
    "discounts.txt": "".join(
        f"Loyalty discount of {name}: {rate} percent.\n" for name, rate in DISCOUNT_PERCENT.items()
    ),
    "shipping.txt": "Shipping is free above 100 euros. Below that it costs 6.90 euros.\n",
    "opening_hours.txt": "The shop is open from Monday to Friday, 8:00 to 18:00.\n",
}


@cache
def data_folder() -> Path:
    """Make database and notes in `$SUREACT_DEMO_FOLDER`, or in a temporary folder, and return the folder."""
    folder = Path(os.environ.get("SUREACT_DEMO_FOLDER") or tempfile.mkdtemp(prefix="sureact-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    database_file = folder / "shop.db"
    database_file.unlink(missing_ok=True)
    database = sqlite3.connect(database_file)
    database.execute("CREATE TABLE orders (customer TEXT, product TEXT, quantity INTEGER, unit_price REAL)")
    database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
    database.commit()
    database.close()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def loyalty_discount(customer: str) -> float:
    """What the demo's question asks for, computed from the data."""
    amount = sum(quantity * price for name, _, quantity, price in ORDERS if name == customer)
    return round(amount * DISCOUNT_PERCENT[customer] / 100, 2)
