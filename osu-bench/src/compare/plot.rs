//! A benchmark as a picture: values by bytes, both logarithmic, with the quartiles, a line for each library.

use std::fmt::Write as _;

/// What a library has reached.
pub struct Line {
    pub name: String,
    /// Bytes, median and quartiles.
    pub points: Vec<(usize, f64, [f64; 2])>,
}

/// Told apart in print and by those who don't see all colours: hues of different lightness, and shapes.
pub const COLOURS: [&str; 8] = [
    "#0b62a4", "#d1495b", "#2e7d32", "#8e5ea2", "#b8860b", "#00838f", "#5d4037", "#616161",
];

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;

/// `8`, `64 Ki`, `1 Mi`.
pub fn bytes(size: usize) -> String {
    match size {
        _ if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} Mi", size >> 20),
        _ if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} Ki", size >> 10),
        _ => size.to_string(),
    }
}

/// What may be part of a page.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// 1, 2 and 5 times powers of ten between two values.
fn ticks(least: f64, most: f64) -> Vec<(f64, bool)> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let decades = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|step| (power, step)));
    let all = decades.map(|(power, step)| (step * 10f64.powi(power), step == 1.0));
    all.filter(|(value, _)| (least * 0.999..=most * 1.001).contains(value))
        .collect()
}

/// A mark of the line in this place.
fn mark(place: usize, x: f64, y: f64) -> String {
    let colour = COLOURS[place % COLOURS.len()];
    match place % 4 {
        0 => format!("<circle cx='{x:.1}' cy='{y:.1}' r='3.2' fill='{colour}'/>"),
        1 => format!(
            "<rect x='{:.1}' y='{:.1}' width='6' height='6' fill='{colour}'/>",
            x - 3.0,
            y - 3.0
        ),
        2 => format!(
            "<path d='M{x:.1} {:.1}l3.8 6.6h-7.6z' fill='{colour}'/>",
            y - 4.2
        ),
        _ => format!(
            "<path d='M{x:.1} {:.1}l4 4l-4 4l-4 -4z' fill='{colour}'/>",
            y - 4.0
        ),
    }
}

/// The picture, if there is something to show: `unit` is that of the values.
pub fn svg(title: &str, unit: &str, lines: &[Line]) -> Option<String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let sizes: Vec<usize> = points().map(|point| point.0).collect();
    let (first, last) = (*sizes.iter().min()?, *sizes.iter().max()?);
    let values = points().flat_map(|(_, value, [lower, upper])| [*value, *lower, *upper]);
    let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min) / 1.15;
    let most = values.iter().copied().fold(0.0, f64::max) * 1.15;
    if first == last || values.is_empty() {
        return None;
    }
    // Less than a factor of ten would look like more than it is.
    let most = most.max(least * 10.0);
    let along = |value: f64, least: f64, most: f64| (value / least).ln() / (most / least).ln();
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let x = |size: usize| LEFT + width * along(size as f64, first as f64, last as f64);
    let y = |value: f64| TOP + height * (1.0 - along(value.max(least), least, most));

    let mut text = format!(
        "<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{}: {unit} by bytes'>",
        escape(title)
    );
    let few = most / least < 300.0;
    for (value, decade) in ticks(least, most) {
        let at = y(value);
        let class = if decade { "grid" } else { "grid minor" };
        let _ = write!(
            text,
            "<line class='{class}' x1='{LEFT}' x2='{:.1}' y1='{at:.1}' y2='{at:.1}'/>",
            WIDTH - RIGHT
        );
        if decade || few {
            let _ = write!(
                text,
                "<text class='y' x='{:.1}' y='{:.1}'>{value}</text>",
                LEFT - 7.0,
                at + 4.0
            );
        }
    }
    let powers: Vec<usize> = (0..usize::BITS).map(|power| 1 << power).collect();
    let powers: Vec<usize> = powers
        .into_iter()
        .filter(|size| (first..=last).contains(size))
        .collect();
    let every = powers.len().div_ceil(9).max(1);
    for size in powers.into_iter().step_by(every) {
        let at = x(size);
        let _ = write!(
            text,
            "<line class='grid minor' x1='{at:.1}' x2='{at:.1}' y1='{TOP}' y2='{:.1}'/>\
             <text class='x' x='{at:.1}' y='{:.1}'>{}</text>",
            TOP + height,
            TOP + height + 17.0,
            bytes(size)
        );
    }
    let _ = write!(
        text,
        "<text class='x' x='{:.1}' y='{:.1}'>bytes</text>\
         <text class='x' transform='translate(14 {:.1}) rotate(-90)'>{unit}</text>",
        LEFT + width / 2.0,
        HEIGHT - 8.0,
        TOP + height / 2.0
    );
    let mut legend = LEFT;
    for (place, line) in lines.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let path: Vec<String> = line
            .points
            .iter()
            .map(|(size, value, _)| format!("{:.1},{:.1}", x(*size), y(*value)))
            .collect();
        let _ = write!(
            text,
            "<polyline points='{}' stroke='{colour}'/>",
            path.join(" ")
        );
        for (size, value, [lower, upper]) in &line.points {
            let at = x(*size);
            let _ = write!(
                text,
                "<line x1='{at:.1}' x2='{at:.1}' y1='{:.1}' y2='{:.1}' stroke='{colour}'/>{}",
                y(*lower),
                y(*upper),
                mark(place, at, y(*value))
            );
        }
        if line.points.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "<line x1='{legend:.1}' x2='{:.1}' y1='16' y2='16' stroke='{colour}' stroke-width='2'/>{}\
             <text x='{:.1}' y='20'>{}</text>",
            legend + 22.0,
            mark(place, legend + 11.0, 16.0),
            legend + 27.0,
            escape(&line.name)
        );
        // About the width of the letters.
        legend += 45.0 + 7.0 * line.name.chars().count() as f64;
    }
    text.push_str("</svg>");
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_powers() {
        let found: Vec<f64> = ticks(0.4, 21.0)
            .into_iter()
            .map(|(value, _)| value)
            .collect();
        let expected = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
        assert!(
            found.len() == 6
                && found
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| (a / b - 1.0).abs() < 1e-9),
            "{found:?}"
        );
        assert_eq!(
            [8, 1024, 1536, 1 << 22].map(bytes),
            ["8", "1 Ki", "1536", "4 Mi"]
        );
    }

    #[test]
    fn a_picture_has_a_line_for_each_library() {
        let line = |name: &str| Line {
            name: name.to_owned(),
            points: vec![(8, 1.0, [0.9, 1.1]), (1024, 20.0, [19.0, 22.0])],
        };
        let picture = svg("latency", "µs", &[line("a<b"), line("c")]).unwrap();
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert!(
            picture.contains("a&lt;b") && picture.contains(">1 Ki<") && picture.contains(">µs<")
        );
        assert!(svg("barrier", "µs", &[]).is_none());
    }
}
