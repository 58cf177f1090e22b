//! Comparisons as one self-contained HTML page: pictures, tables, machine.

use std::fmt::Write as _;

use super::figure;
use super::plot::{self, bytes, escape};
use super::report::{Cell, Report, number, ratio, verdict};
use crate::bench::{Name, Unit};
use crate::stats::Summary;

const STYLE: &str = ":root{color-scheme:light dark;--ink:#222;--ground:#fff;--soft:#555;--edge:#ddd;--line:#c4c4c4;--faint:#ececec;\
--better:#1b6e20;--worse:#a3263a}\
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:1240px;margin:2em auto;padding:0 1em}\
h1{font-size:1.7em;margin-bottom:.2em}h2{margin-top:1.8em;border-bottom:1px solid var(--line)}h3{margin:.2em 0;font-size:1.05em}\
.all{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(520px,100%),1fr));gap:1.4em;align-items:start;margin-top:1em}\
small{font-weight:normal;color:var(--soft)}\
.one{border:1px solid var(--edge);border-radius:6px;padding:.8em 1em;min-width:0}.one:has(>.many[open]){grid-column:1/-1}\
.one>svg{width:100%;max-width:640px;height:auto;font:12px system-ui,sans-serif}\
svg text{fill:var(--ink)}svg text.x{text-anchor:middle}svg text.y{text-anchor:end}\
svg polyline{fill:none;stroke-width:1.8}svg .grid{stroke:var(--line)}svg .minor{stroke:var(--faint)}svg .quartiles{stroke:var(--ink)}\
.legend{font-size:13px;margin:.5em 0}.legend span{white-space:nowrap;margin-right:.8em}.legend svg{width:22px;height:10px;margin-right:.35em}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}\
td,th{padding:.15em .6em;border-bottom:1px solid var(--faint);text-align:right;white-space:nowrap}\
td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:var(--ground)}\
.what{text-align:left;white-space:normal;overflow-wrap:anywhere}\
.better{color:var(--better)}.worse{color:var(--worse)}.noise{color:var(--soft)}summary{cursor:pointer;color:var(--soft)}\
p{overflow-wrap:anywhere}";

/// The style sheet for narrow screens: larger letters in the scaled pictures, and no units beside
/// numbers, which the heading above the picture has.
const NARROW: &str = "@media(max-width:600px){body{margin:1em auto}.one{padding:.6em .5em}.one>svg{font-size:18px}.one>svg.bars{font-size:14px}svg .odd,svg .unit{display:none}\
svg .below{transform:translateY(5px)}}";

/// The style sheet for a dark background, with other colours of the lines.
const DARK: &str = ":root{--ink:#e2e2e2;--ground:#17191c;--soft:#a8a8a8;--edge:#3a3d42;--line:#55585e;--faint:#2b2e33;\
--better:#7ccb80;--worse:#ff8a94}";

/// Formats the page, with a section per network.
pub fn html(reports: &[Report]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>\n\
         <title>MPI libraries compared</title>\n<style>{STYLE}{NARROW}@media(prefers-color-scheme:dark){{{DARK}{}}}</style>\n<h1>MPI libraries compared</h1>\n",
        plot::on_dark()
    );
    if let Some(report) = reports.first() {
        let _ = writeln!(
            text,
            "<p>Machine: {}</p>",
            escape(&report.conditions.machine)
        );
        text.push_str("<div class='wide'><table><tr><th>library</th><th class='what'>version, folder, launcher</th></tr>\n");
        for (name, library) in &report.sides {
            let (name, version) = (escape(name), escape(&library.version));
            let [dir, launcher] =
                [&library.dir, &library.launcher].map(|path| escape(&path.display().to_string()));
            let what = format!("{version}<br>{dir}, {launcher}");
            let _ = writeln!(text, "<tr><td>{name}</td><td class='what'>{what}</td></tr>");
        }
        text.push_str("</table></div>\n");
    }
    text.push_str(
        "<p>Lines and broad bars are medians, thin bars quartiles. A ratio is that of the library to the first one; it is grey where \
         the quartiles overlap, green where the library is better and red where it is worse. Lines have logarithmic axes.</p>\n",
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
    let line = |line: &str| escape(line.trim_start_matches("- ")).replace(" %", "\u{a0}%");
    let lines: Vec<String> = report.circumstances().lines().map(line).collect();
    let lines = lines.join("<li>");
    let summary = "<summary>circumstances</summary>";
    let _ = writeln!(text, "<details>{summary}<ul><li>{lines}</ul></details>");
    for failure in &report.failures {
        let failure = escape(&unframed(failure));
        let _ = writeln!(text, "<p class='worse'>failed: {failure}</p>");
    }
    text.push_str("<div class='all'>\n");
    let mut benches = report.benches();
    // Benchmarks with small pictures come last.
    benches.sort_by_key(|bench| !bench.has_sizes());
    for bench in benches {
        one(text, report, bench);
    }
    text.push_str("</div>\n");
}

/// Returns a launcher's message on one line, without the frame of some launchers.
fn unframed(said: &str) -> String {
    let is_frame = |word: &str| word.chars().all(|c| matches!(c, '=' | '-' | '*'));
    let words: Vec<&str> = said
        .split_whitespace()
        .filter(|word| !is_frame(word))
        .collect();
    words.join(" ")
}

/// Formats picture and table of a benchmark.
fn one(text: &mut String, report: &Report, bench: Name) {
    let Some(unit) = bench.unit() else { return };
    let cells: Vec<&Cell> = report.shown(bench).collect();
    let (name, meaning, short) = (escape(&bench.text()), bench.explanation(), unit.text());
    let distance = cells
        .first()
        .map_or(String::new(), |cell| report.distance_of(cell));
    let heading = format!("{name} <small>{meaning}, {short}{distance}</small>");
    let _ = writeln!(text, "<div class='one'><h3>{heading}</h3>");
    match bench.has_sizes() {
        true => by_size(text, report, bench, &cells, unit),
        false => by_library(text, report, &cells, &name, unit),
    }
    text.push_str("</div>\n");
}

/// Formats a library's result as a cell of a table.
fn reached(summary: Option<&Summary>) -> String {
    let text = |one: &Summary| format!("{} ± {:.0} %", number(one.median), 50.0 * one.spread());
    format!("<td>{}</td>", summary.map_or("–".to_owned(), text))
}

/// Formats the ratio to the first library as a cell of a table.
fn compared(unit: Unit, base: Option<&Summary>, summary: Option<&Summary>) -> String {
    let (Some(base), Some(one)) = (base, summary) else {
        return "<td>–</td>".to_owned();
    };
    let verdict = verdict(unit, base, one);
    let class = verdict.rsplit(' ').next().unwrap_or_default();
    format!(
        "<td class='{class}'>{}</td>",
        ratio(one.median / base.median)
    )
}

fn summaries(cell: &Cell) -> Vec<Option<Summary>> {
    cell.values
        .iter()
        .map(|values| Summary::of(values))
        .collect()
}

/// Draws a line per library, with a table of a row per size.
fn by_size(text: &mut String, report: &Report, bench: Name, cells: &[&Cell], unit: Unit) {
    let picture = plot::svg(&bench.text(), unit.text(), &report.lines(bench));
    let open = if picture.is_some() { "" } else { " open" };
    text.push_str(&picture.unwrap_or_default());
    let mut head = "<tr><th>bytes</th>".to_owned();
    for (place, (name, _)) in report.sides.iter().enumerate() {
        let more = if place > 0 { "<th>ratio</th>" } else { "" };
        head += &format!("<th>{}</th>{more}", escape(name));
    }
    let summary = "<summary>numbers</summary><div class='wide'><table>";
    let _ = writeln!(text, "<details class='many'{open}>{summary}{head}</tr>");
    for cell in cells {
        let found = summaries(cell);
        let mut row = String::new();
        for (place, one) in found.iter().map(Option::as_ref).enumerate() {
            row += &reached(one);
            if place > 0 {
                row += &compared(unit, found[0].as_ref(), one);
            }
        }
        let _ = writeln!(text, "<tr><td>{}</td>{row}</tr>", bytes(cell.size));
    }
    text.push_str("</table></div></details>\n");
}

/// Draws a bar per library, with a table of a row per library.
fn by_library(text: &mut String, report: &Report, cells: &[&Cell], name: &str, unit: Unit) {
    for cell in cells {
        let picture = figure::bars_in_page(name, unit.text(), &report.bars(cell));
        text.push_str(&picture.unwrap_or_default());
        let head = format!(
            "<tr><th>library</th><th>{}</th><th>ratio</th></tr>",
            unit.text()
        );
        let summary = "<summary>numbers</summary><div class='wide'><table>";
        let _ = writeln!(text, "<details>{summary}{head}");
        let found = summaries(cell);
        for (place, (name, _)) in report.sides.iter().enumerate() {
            let [one, first] = [place, 0].map(|place| found[place].as_ref());
            let ratio = match place {
                0 => "<td></td>".to_owned(),
                _ => compared(unit, first, one),
            };
            let name = escape(name);
            let _ = writeln!(text, "<tr><td>{name}</td>{}{ratio}</tr>", reached(one));
        }
        text.push_str("</table></div></details>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_lines_of_words() {
        let said = "did not end within 30 s: 62.5\n=====\n=   BAD END -2 of a-b\n=====";
        assert_eq!(
            unframed(said),
            "did not end within 30 s: 62.5 BAD END -2 of a-b"
        );
        assert_eq!(unframed(""), "");
    }
}
