"""What a case expects, what it counted, and the page of all cases."""
import dataclasses
import time
import traceback


@dataclasses.dataclass
class Row:
    what: str
    wanted: str
    counted: str
    held: bool


def shown(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if isinstance(value, float) else str(value)


class Case:
    """The expectation table of one fault. Rows are counts; times are notes, except where a bar on time is what is asked for."""

    def __init__(self, name, title):
        self.name, self.title = name, title
        self.rows, self.notes, self.seconds = [], [], 0.0

    @property
    def held(self):
        return all(row.held for row in self.rows)

    def _row(self, what, wanted, counted, held):
        self.rows.append(Row(what, wanted, shown(counted), bool(held)))
        print(f"  {'ok    ' if held else 'FAILED'} {what}: {shown(counted)} ({wanted})", flush=True)
        return held

    def equal(self, what, counted, wanted):
        return self._row(what, shown(wanted), counted, counted == wanted)

    def least(self, what, counted, wanted):
        return self._row(what, f"at least {shown(wanted)}", counted, counted >= wanted)

    def most(self, what, counted, wanted):
        return self._row(what, f"at most {shown(wanted)}", counted, counted <= wanted)

    def note(self, what, value):
        """Information, without an expectation."""
        self.notes.append((what, shown(value)))
        print(f"         {what}: {shown(value)}", flush=True)

    def record(self):
        """As JSON can hold it; of_record() reads it."""
        return {**vars(self), "rows": [dataclasses.asdict(row) for row in self.rows]}

    @staticmethod
    def of_record(record):
        case = Case(record["name"], record["title"])
        case.rows, case.notes, case.seconds = [Row(**row) for row in record["rows"]], record["notes"], record["seconds"]
        return case

    def run(self, function):
        """Calls it with this case; what it raises is a row that did not hold."""
        print(f"{self.name}: {self.title}", flush=True)
        began = time.monotonic()
        try:
            function(self)
        except Exception as error:  # whatever it is, the other cases go on
            traceback.print_exc()
            self._row("the case went to its end", "yes", f"{type(error).__name__}: {str(error)[:300]}", False)
        self.seconds = time.monotonic() - began
        return self.held


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(columns) - 1)) + " |"]
    return lines + ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]


def section(case):
    lines = [f"### {case.title}", "", f"`{case.name}`, {case.seconds:.0f} s.", ""]
    lines += table(["what was counted", "expected", "counted", "held"],
                   [[row.what, row.wanted, row.counted, "yes" if row.held else "**no**"] for row in case.rows])
    if case.notes:
        lines += ["", "For information: " + "; ".join(f"{what} {value}" for what, value in case.notes) + "."]
    return lines + [""]


def page(head, groups):
    """The whole document. `groups`: (title, cases) in order."""
    cases = [case for _, members in groups for case in members]
    rows = [row for case in cases for row in case.rows]
    lines = [head, f"{sum(row.held for row in rows)} of {len(rows)} expectations held, in {sum(case.held for case in cases)} of {len(cases)} cases.", ""]
    lines += table(["fault", "expectations held", "seconds"],
                   [[case.title, f"{sum(row.held for row in case.rows)} of {len(case.rows)}", f"{case.seconds:.0f}"] for case in cases]) + [""]
    for title, members in groups:
        if members:
            lines += [f"## {title}", ""]
        for case in members:
            lines += section(case)
    return "\n".join(lines).rstrip("\n") + "\n"
