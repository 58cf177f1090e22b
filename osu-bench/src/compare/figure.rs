//! A benchmark as a picture of its own: values by bytes, and below how the first library stands to
//! the best of the others.

use super::plot::{Frame, Line, chart, colour, escape, label, stroke};
use super::report::number;
use super::standing::MARGIN;

/// Attributes for the classes of a page: not every viewer of such pictures knows style sheets.
const LOOKS: [(&str, &str); 10] = [
    ("<polyline ", "<polyline fill='none' stroke-width='1.8' "),
    ("class='x'", "text-anchor='middle'"),
    ("class='x odd'", "text-anchor='middle'"),
    ("class='x unit'", "text-anchor='middle'"),
    ("class='x below'", "text-anchor='middle'"),
    ("class='y'", "text-anchor='end'"),
    ("class='grid minor'", "stroke='#ececec'"),
    ("class='grid'", "stroke='#c4c4c4'"),
    ("class='one'", "stroke='#555'"),
    ("class='quartiles'", "stroke='#222'"),
];

const WIDTH: f64 = 560.0;
/// Height of the title.
const HEAD: f64 = 24.0;
/// Space between the two parts.
const GAP: f64 = 30.0;
const RATIOS: f64 = 100.0;
const BOTTOM: f64 = 44.0;

/// Smallest range of the axis of ratios.
const USUAL: (f64, f64) = (0.7, 1.5);

/// Ratios with a labelled line.
const LEVELS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// Returns a picture with a title and its own style.
fn whole(title: &str, height: f64, inside: &str) -> String {
    let plain = |text: String, (class, look): &(&str, &str)| text.replace(class, look);
    let inside = LOOKS.iter().fold(inside.to_owned(), plain);
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{}' height='{}' role='img' \
         font-family='system-ui, Helvetica, Arial, sans-serif' font-size='12' fill='#333'>\
         <title>{title}</title><rect width='{WIDTH}' height='{height}' fill='#fff'/>\
         <text font-size='14' font-weight='600' x='10' y='18'>{title}</text>\
         <g transform='translate(0 {HEAD})'>{inside}</g></svg>\n",
        WIDTH * 1.25,
        height * 1.25,
        title = escape(title)
    )
}

/// Draws values by `axis`, bytes mostly, and the ratios of the first line to the best of the others
/// below. Returns `None` if there is nothing to draw a line of.
pub fn lines(title: &str, unit: &str, axis: &str, lines: &[Line], ratios: Line) -> Option<String> {
    let mut inside = String::new();
    let above = chart(&mut inside, unit, lines)?;
    let alone = ratios.points.is_empty();
    above.powers(&mut inside, alone);
    for (place, line) in lines.iter().enumerate().rev() {
        above.line(&mut inside, place, line);
    }
    let mut end = above.top + above.height;
    if alone {
        above.below(&mut inside, axis);
    } else {
        let ends = || ratios.points.iter().flat_map(|(_, _, range)| *range);
        let below = Frame {
            top: end + GAP,
            height: RATIOS,
            values: (
                ends().fold(USUAL.0, |least, value| least.min(value / 1.1)),
                ends().fold(USUAL.1, |most, value| most.max(value * 1.1)),
            ),
            ..above
        };
        ratio(&mut inside, &below, ratios, &lines[0].name);
        end = below.top + below.height;
    }
    Some(whole(title, HEAD + end + BOTTOM, &inside))
}

fn ratio(text: &mut String, frame: &Frame, ratios: Line, name: &str) {
    let (left, width) = (frame.left, frame.width);
    let (top, height) = (frame.y(MARGIN), frame.y(1.0 / MARGIN) - frame.y(MARGIN));
    let title = "against the best of the others: above 1 it is faster";
    *text += &label(
        left,
        frame.top - 7.0,
        "",
        &format!("{} {title}", escape(name)),
    );
    *text += &format!(
        "<rect x='{left:.1}' y='{top:.1}' width='{width:.1}' height='{height:.1}' fill='#f3f3f3'/>"
    );
    let (least, most) = frame.values;
    // Labels of close levels would overlap.
    let narrow = most / least < 5.0;
    for level in LEVELS
        .into_iter()
        .filter(|level| (least..=most).contains(level))
    {
        let class = if level == 1.0 { "one" } else { "grid minor" };
        let said = (narrow || ![0.8, 1.25].contains(&level)).then(|| level.to_string());
        frame.level(text, level, class, said.as_deref());
    }
    frame.powers(text, true);
    frame.unit(text, "times as fast");
    frame.below(text, "bytes");
    frame.line(text, 0, &ratios);
}

/// A library's result in a benchmark without sizes.
pub struct Bar {
    /// The library's place among all, also those that have reached nothing: by it each has its
    /// colour.
    pub place: usize,
    pub name: String,
    pub value: f64,
    /// The quartiles.
    pub range: [f64; 2],
}

/// A picture of a benchmark without sizes: a bar for each library, with its median and quartiles.
/// None if there is none.
pub fn bars(title: &str, unit: &str, values: &[Bar]) -> Option<String> {
    let (inside, height) = rows(unit, values)?;
    Some(whole(title, HEAD + height, &inside))
}

/// Draws the bars as a part of a page, which has the title and a style sheet.
pub fn bars_in_page(title: &str, unit: &str, values: &[Bar]) -> Option<String> {
    let (inside, height) = rows(unit, values)?;
    Some(format!(
        "<svg class='bars' viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{}: {unit}'>{inside}</svg>",
        escape(title)
    ))
}

/// The bars, and how high they are together.
fn rows(unit: &str, values: &[Bar]) -> Option<(String, f64)> {
    const ROW: f64 = 26.0;
    let letters = values.iter().map(|bar| bar.name.chars().count()).max()?;
    let names = (8.0 * letters as f64 + 7.0).clamp(110.0, WIDTH / 2.0);
    let least = values
        .iter()
        .map(|bar| bar.value)
        .fold(f64::INFINITY, f64::min);
    let ends = values.iter().flat_map(|bar| [bar.value, bar.range[1]]);
    let most = ends.fold(0.0, f64::max);
    if least <= 0.0 {
        return None;
    }
    // With one large value, the others' bars would be dots.
    let decades = most / least > 30.0;
    let room = WIDTH - names - 90.0;
    let length = |value: f64| match decades {
        false => room * value / most,
        true => room * (value * 2.0 / least).ln().max(0.0) / (most * 2.0 / least).ln(),
    };
    let mut inside = String::new();
    for (row, bar) in values.iter().enumerate() {
        let (top, middle) = (ROW * row as f64 + 8.0, ROW * row as f64 + 17.0);
        let (width, fill, base) = (length(bar.value), colour(bar.place), middle + 4.0);
        let ends = bar.range.map(|value| names + length(value));
        inside += &label(names - 7.0, base, "class='y'", &escape(&bar.name));
        inside += &format!(
            "<rect x='{names:.1}' y='{top}' width='{width:.1}' height='18' fill='{fill}'/>"
        );
        inside += &stroke(ends, [middle; 2], "class='quartiles'");
        let end = names + length(bar.value.max(bar.range[1])) + 7.0;
        inside += &label(end, base, "", &format!("{} {unit}", number(bar.value)));
    }
    let mut height = ROW * values.len() as f64 + 16.0;
    if decades {
        inside += &label(names, height + 2.0, "", "lengths are logarithmic");
        height += 14.0;
    }
    Some((inside, height))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, values: [f64; 2]) -> Line {
        let points = [(8, values[0]), (65536, values[1])];
        Line {
            name: name.to_owned(),
            points: points
                .map(|(size, value)| (size, value, [value, value]))
                .into(),
        }
    }

    #[test]
    fn a_picture_has_both_parts() {
        let lines = [line("Weft", [1.0, 10.0]), line("Other", [1.5, 9.0])];
        let text = super::lines("latency", "µs", "bytes", &lines, line("", [1.5, 0.9])).unwrap();
        assert_eq!(text.matches("<polyline").count(), 3);
        assert!(text.contains("xmlns=") && text.contains("Weft against the best"));
        assert!(
            text.contains(">times as fast<") && text.contains(">1.25<") && text.contains(">32 Ki<")
        );
        let none = Line {
            name: String::new(),
            points: Vec::new(),
        };
        let text = super::lines("latency", "µs", "bytes", &lines[..1], none).unwrap();
        assert!(!text.contains("against") && text.contains(">32 Ki<"));
    }

    #[test]
    fn bars_have_their_numbers() {
        let bar = |place, name: &str, value, range| Bar {
            place,
            name: name.to_owned(),
            value,
            range,
        };
        // A library between them has failed.
        let rows = [
            bar(0, "Weft", 0.3, [0.29, 0.31]),
            bar(2, "Other", 9000.0, [8e3, 9.5e3]),
        ];
        let text = bars("barrier", "µs", &rows).unwrap();
        assert!(
            text.contains(">0.300 µs<")
                && text.contains(">9000 µs<")
                && text.contains("logarithmic")
        );
        assert!(text.contains(colour(2)) && !text.contains(colour(1)));
        assert!(
            !bars("barrier", "µs", &rows[..1])
                .unwrap()
                .contains("logarithmic")
        );
        assert!(bars("barrier", "µs", &[]).is_none());
    }
}
