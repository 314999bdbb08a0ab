"""Results that are measured in turn with another program: medians, and the ratio of lci's results to the rival's, taken
within each round first. Used by bench/ibv/run and bench/ofi/run."""
import json
import os
import statistics


def summarise(bench, rows, values, rival):
    """rows: {what: (name, unit, which of the rival's it is compared with, (sign, bar))}; values: {(what, who): [...]}."""
    table = []
    for (what, who), got in sorted(values.items(), key=lambda item: (list(rows).index(item[0][0]), item[0][1])):
        name, unit, theirs_is, (sign, limit) = rows[what]
        row = {"bench": bench, "what": name, "who": who, "unit": unit, "value": statistics.median(got), "low": min(got),
               "high": max(got), "rounds": len(got)}
        theirs = values.get((theirs_is, rival), [])
        if who == "lci" and len(theirs) == len(got):
            ratios = [ours / other for ours, other in zip(got, theirs)]
            row.update(ours_to_theirs=statistics.median(ratios), ratio_low=min(ratios), ratio_high=max(ratios),
                       bar=f"{sign} {limit:.2f}")
            row["bar_met"] = row["ours_to_theirs"] <= limit if sign == "<=" else row["ours_to_theirs"] >= limit
        table.append(row)
    return table


def show(table, rival):
    for row in table:
        line = f"  {row['who']:<11} {row['what']:<31} {row['value']:9.4g} {row['unit']:<5} [{row['low']:.4g}..{row['high']:.4g}]"
        if "bar" in row:
            line += f"  ours is {row['ours_to_theirs']:.2f} of {rival}'s [{row['ratio_low']:.2f}..{row['ratio_high']:.2f}]," \
                    f" bar {row['bar']}: {'met' if row['bar_met'] else 'MISSED'}"
        print(line)


def write(path, table):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": os.uname().machine, "results": table}, file, indent=1)
    print("JSON in " + os.path.relpath(path))
