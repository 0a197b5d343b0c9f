"""The package data is there and hangs together."""

from sureact.evaluation.tasks.world import articles, calendar_events, phone_numbers, tables, text_files, weather_records


def test_every_row_has_a_value_per_column() -> None:
    assert [name for name, table in tables().items() if any(len(row) != len(table.columns) for row in table.rows)] == []


def test_rows_point_to_rows_that_exist() -> None:
    ships = {row[0] for row in tables()["ships"].rows}
    routes = {row[0] for row in tables()["routes"].rows}
    assert {row[2] for row in tables()["sailings"].rows} <= ships
    assert {row[1] for row in tables()["sailings"].rows} <= routes
    assert {row[3] for row in tables()["crew"].rows} <= ships
    assert {row[1] for row in tables()["repairs"].rows} <= ships


def test_files_are_named_by_folder_and_read_whole() -> None:
    assert list(text_files()) == sorted(text_files())
    assert len(text_files()) == 16
    assert text_files()["policies/crew.txt"].startswith("Rules for the crew\n")


def test_the_calendar_is_in_order_and_holds_people_of_the_crew() -> None:
    days = [(event.day, event.start) for event in calendar_events()]
    assert days == sorted(days)
    crew = {row[1] for row in tables()["crew"].rows}
    assert {person for event in calendar_events() for person in event.people} <= crew
    assert set(phone_numbers()) == crew


def test_every_day_from_may_to_july_has_its_weather() -> None:
    assert {len(days) for days in weather_records().values()} == {92}
    assert len(articles()) == 24
