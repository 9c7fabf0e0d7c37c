"""Analyse a table in a jail and save its plot.

The code runs in a session, so a step can use variables of earlier steps. Figures are returned without a file and
without `plt.show()`. Needs pandas and matplotlib in the Python that runs this example.

    python examples/data_analysis.py [DIRECTORY FOR THE PLOT]
"""

from __future__ import annotations

import asyncio
import math
import pathlib
import sys
import tempfile

import cella

STEPS = {
    "load": """
import pandas as pd
sales = pd.read_csv("sales.csv", parse_dates=["day"])
sales.shape
""",
    "summarise": """
by_month = sales.groupby(sales["day"].dt.to_period("M"))["amount"].agg(["sum", "mean"]).round(1)
print(by_month.head(3))
str(by_month["sum"].idxmax())
""",
    "plot": """
import matplotlib.pyplot as plt
by_month["sum"].plot.bar(title="Sales by month", figsize=(6, 3))
plt.tight_layout()
""",
}


def table() -> str:
    """A year of sales with a maximum in summer."""
    lines = ["day,amount"]
    for day in range(365):
        month, date = divmod(day, 31)
        if date < 28:
            lines.append(f"2025-{month + 1:02}-{date + 1:02},{100 - 40 * math.cos(2 * math.pi * day / 365):.2f}")
    return "\n".join(lines)


async def analyse(directory: str) -> list[str]:
    """The paths of the saved plots."""
    images = []
    async with cella.Session(cella.SandboxExecutor(memory_limit="1g", preload=["pandas"])) as session:
        await session.upload("sales.csv", table())
        for name, code in STEPS.items():
            result = await session.run(code, timeout=60)
            if not result.ok:
                raise SystemExit(f"{name}: {result}")
            print(f"{name}: {result.value or ''} ({result.usage.wall_ms:.0f} ms)")
            if result.stdout:
                print(result.stdout, end="")
            images += result.save_images(directory)
    return images


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="plots-"))
    for path in asyncio.run(analyse(str(target))):
        print(f"saved {path}")
