//! Comparisons as one page of HTML that needs nothing else: pictures, tables, machine.

use std::fmt::Write as _;

use super::plot::{self, Line, bytes, escape};
use super::report::{Cell, Report, number, ratio, verdict};
use crate::bench::Name;
use crate::stats::Summary;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff;max-width:1240px;margin:2em auto;padding:0 1em}\
h1{font-size:1.7em;margin-bottom:.2em}h2{margin-top:1.8em;border-bottom:1px solid #ccc}h3{margin:.2em 0;font-size:1.05em}\
.all{display:grid;grid-template-columns:repeat(auto-fit,minmax(520px,1fr));gap:1.4em;align-items:start}small{font-weight:normal;color:#555}\
.one{border:1px solid #ddd;border-radius:6px;padding:.8em 1em;min-width:0}\
svg{width:100%;height:auto;font:12px system-ui,sans-serif}svg text{fill:#333}svg text.x{text-anchor:middle}svg text.y{text-anchor:end}\
svg polyline{fill:none;stroke-width:1.8}svg .grid{stroke:#c4c4c4}svg .minor{stroke:#ececec}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}\
td,th{padding:.15em .6em;border-bottom:1px solid #eee;text-align:right;white-space:nowrap}td:first-child,th:first-child{text-align:left}\
.better{color:#1b6e20}.worse{color:#a3263a}.noise{color:#666}summary{cursor:pointer;color:#444}";

/// The page: a section for each network.
pub fn html(reports: &[Report]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>\n\
         <title>MPI libraries compared</title>\n<style>{STYLE}</style>\n<h1>MPI libraries compared</h1>\n"
    );
    if let Some(report) = reports.first() {
        let _ = writeln!(
            text,
            "<p>Machine: {}</p>",
            escape(&report.conditions.machine)
        );
        text.push_str("<div class='wide'><table><tr><th>library</th><th style='text-align:left'>version, folder, launcher</th></tr>\n");
        for (name, library) in &report.sides {
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td style='text-align:left'>{}<br>{}, {}</td></tr>",
                escape(name),
                escape(&library.version),
                escape(&library.dir.display().to_string()),
                escape(&library.launcher.display().to_string())
            );
        }
        text.push_str("</table></div>\n");
    }
    text.push_str(
        "<p>Lines are medians, bars quartiles. A ratio is that of the library to the first one; it is grey where the \
         quartiles overlap, green where the library is better and red where it is worse. Both axes are logarithmic.</p>\n",
    );
    for report in reports {
        section(&mut text, report);
    }
    text.push_str("</html>\n");
    text
}

fn section(text: &mut String, report: &Report) {
    let with = &report.conditions;
    let _ = writeln!(
        text,
        "<h2>{} ranks, {}</h2>",
        with.ranks,
        escape(&with.network)
    );
    let lines: Vec<String> = report
        .circumstances()
        .lines()
        .map(|line| escape(line.trim_start_matches("- ")))
        .collect();
    let _ = writeln!(
        text,
        "<details><summary>circumstances</summary><p>{}</p></details>",
        lines.join("<br>")
    );
    for failure in &report.failures {
        let _ = writeln!(text, "<p class='worse'>failed: {}</p>", escape(failure));
    }
    text.push_str("<div class='all'>\n");
    let mut benches: Vec<Name> = Vec::new();
    for cell in &report.cells {
        if !benches.contains(&cell.bench) {
            benches.push(cell.bench);
        }
    }
    // Those without a picture last.
    benches.sort_by_key(|bench| !bench.has_sizes());
    for bench in benches {
        one(text, report, bench);
    }
    text.push_str("</div>\n");
}

/// A benchmark: picture and table.
fn one(text: &mut String, report: &Report, bench: Name) {
    let Some(unit) = bench.unit() else { return };
    let cells: Vec<&Cell> = report
        .cells
        .iter()
        .filter(|cell| cell.bench == bench)
        .collect();
    let summaries = |cell: &Cell| -> Vec<Option<Summary>> {
        cell.values
            .iter()
            .map(|values| Summary::of(values))
            .collect()
    };
    let lines: Vec<Line> = (report.sides.iter().enumerate())
        .map(|(place, (name, _))| Line {
            name: name.clone(),
            points: cells
                .iter()
                .filter(|cell| cell.size > 0)
                .filter_map(|cell| {
                    let found = Summary::of(cell.values.get(place)?)?;
                    Some((cell.size, found.median, [found.lower, found.upper]))
                })
                .collect(),
        })
        .collect();
    let name = escape(&bench.text());
    let _ = writeln!(
        text,
        "<div class='one'><h3>{name} <small>{}, {}</small></h3>",
        bench.explanation(),
        unit.text()
    );
    let picture = plot::svg(&name, unit.text(), &lines);
    let open = match &picture {
        Some(picture) => {
            text.push_str(picture);
            ""
        }
        None => " open",
    };
    let _ = write!(
        text,
        "<details{open}><summary>numbers</summary><div class='wide'><table><tr><th>bytes</th>"
    );
    for (place, (name, _)) in report.sides.iter().enumerate() {
        let _ = write!(text, "<th>{}</th>", escape(name));
        if place > 0 {
            text.push_str("<th>ratio</th>");
        }
    }
    text.push_str("</tr>\n");
    for cell in cells {
        let size = if bench.has_sizes() {
            bytes(cell.size)
        } else {
            "–".to_owned()
        };
        let _ = write!(text, "<tr><td>{size}</td>");
        let found = summaries(cell);
        for (place, summary) in found.iter().enumerate() {
            match summary {
                Some(one) => {
                    let _ = write!(
                        text,
                        "<td>{} ± {:.0} %</td>",
                        number(one.median),
                        50.0 * one.spread()
                    );
                }
                None => text.push_str("<td>–</td>"),
            }
            if place == 0 {
                continue;
            }
            match (&found[0], summary) {
                (Some(base), Some(one)) => {
                    let class = verdict(unit, base, one)
                        .rsplit(' ')
                        .next()
                        .unwrap_or_default();
                    let _ = write!(
                        text,
                        "<td class='{class}'>{}</td>",
                        ratio(one.median / base.median)
                    );
                }
                _ => text.push_str("<td>–</td>"),
            }
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table></div></details></div>\n");
}
