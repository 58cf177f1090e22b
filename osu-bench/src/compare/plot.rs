//! A benchmark as a picture: values by bytes, both logarithmic, with the quartiles, a line for each
//! library.

/// A library's results.
pub struct Line {
    pub name: String,
    /// Bytes, median and quartiles.
    pub points: Vec<(usize, f64, [f64; 2])>,
}

/// Colours and shapes of the lines, distinct also in greyscale and with colour blindness.
pub const COLOURS: [&str; 8] = [
    "#0b62a4", "#d1495b", "#2e7d32", "#8e5ea2", "#b8860b", "#00838f", "#5d4037", "#616161",
];

const WIDTH: f64 = 560.0;
/// The height of a picture with a legend of one line.
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// The distance of two lines of a legend.
const LEAD: f64 = 18.0;

/// Formats bytes: `8`, `64 Ki`, `1 Mi`.
pub fn bytes(size: usize) -> String {
    match size {
        _ if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} Mi", size >> 20),
        _ if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} Ki", size >> 10),
        _ => size.to_string(),
    }
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns 1, 2 and 5 times powers of ten between two values.
fn ticks(least: f64, most: f64) -> Vec<(f64, bool)> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let decades = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|step| (power, step)));
    let all = decades.map(|(power, step)| (step * 10f64.powi(power), step == 1.0));
    all.filter(|(value, _)| (least * 0.999..=most * 1.001).contains(value))
        .collect()
}

/// Returns the colour of a line by its index.
pub fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

/// The colours on a dark background, with the same contrast as the others on white.
const ON_DARK: [&str; COLOURS.len()] = [
    "#6cb4f0", "#ff8a94", "#7ccb80", "#c9a0dc", "#e5b93f", "#4dc6d1", "#c4a398", "#b5b5b5",
];

/// Returns style rules that replace [`COLOURS`] by [`ON_DARK`].
pub fn on_dark() -> String {
    let rule = |(light, dark)| {
        format!("svg [stroke='{light}']{{stroke:{dark}}}svg [fill='{light}']{{fill:{dark}}}")
    };
    COLOURS.into_iter().zip(ON_DARK).map(rule).collect()
}

/// Draws a line between two points, with these attributes.
pub fn stroke(x: [f64; 2], y: [f64; 2], look: &str) -> String {
    let ([x1, x2], [y1, y2]) = (x, y);
    format!("<line {look} x1='{x1:.1}' x2='{x2:.1}' y1='{y1:.1}' y2='{y2:.1}'/>")
}

/// Draws text at a point, with these attributes.
pub fn label(x: f64, y: f64, look: &str, text: &str) -> String {
    format!("<text {look} x='{x:.1}' y='{y:.1}'>{text}</text>")
}

/// Draws a mark of a line by its index.
fn mark(place: usize, x: f64, y: f64) -> String {
    let colour = colour(place);
    let path =
        |up: f64, rest: &str| format!("<path d='M{x:.1} {:.1}{rest}z' fill='{colour}'/>", y - up);
    match place % 4 {
        0 => format!("<circle cx='{x:.1}' cy='{y:.1}' r='3.2' fill='{colour}'/>"),
        1 => path(3.0, "m-3 0h6v6h-6"),
        2 => path(4.2, "l3.8 6.6h-7.6"),
        _ => path(4.0, "l4 4l-4 4l-4 -4"),
    }
}

/// Formats a number beside an axis: without the digits that only binary fractions have, and short
/// enough for a narrow picture.
fn plain(value: f64) -> String {
    for (unit, letter) in [(1e6, "M"), (1e3, "k")] {
        if value >= 10.0 * unit {
            return format!("{} {letter}", plain(value / unit));
        }
    }
    let text = format!("{value:.6}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A part of a picture with two logarithmic axes.
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
    /// The least and the most bytes.
    pub sizes: (usize, usize),
    /// The least and the most of the values.
    pub values: (f64, f64),
}

fn along(value: f64, (least, most): (f64, f64)) -> f64 {
    (value / least).ln() / (most / least).ln()
}

impl Frame {
    pub fn x(&self, size: usize) -> f64 {
        let (first, last) = self.sizes;
        self.left + self.width * along(size as f64, (first as f64, last as f64))
    }

    pub fn y(&self, value: f64) -> f64 {
        let (least, most) = self.values;
        self.top + self.height * (1.0 - along(value.clamp(least, most), self.values))
    }

    /// Draws a horizontal line at a value, with the value beside it.
    pub fn level(&self, text: &mut String, value: f64, class: &str, said: Option<&str>) {
        let (at, ends) = (self.y(value), [self.left, self.left + self.width]);
        *text += &stroke(ends, [at; 2], &format!("class='{class}'"));
        *text += &said.map_or(String::new(), |said| {
            label(self.left - 7.0, at + 4.0, "class='y'", said)
        });
    }

    /// Draws lines at 1, 2 and 5 times powers of ten.
    fn levels(&self, text: &mut String) {
        let (least, most) = self.values;
        let few = most / least < 300.0;
        for (value, decade) in ticks(least, most) {
            let class = if decade { "grid" } else { "grid minor" };
            let said = (decade || few).then(|| plain(value));
            self.level(text, value, class, said.as_deref());
        }
    }

    /// Draws lines upwards at powers of two, with their numbers of bytes below if wanted.
    pub fn powers(&self, text: &mut String, said: bool) {
        let (first, last) = self.sizes;
        let powers = (0..usize::BITS).map(|power| 1_usize << power);
        let powers: Vec<usize> = powers
            .filter(|size| (first..=last).contains(size))
            .collect();
        let every = powers.len().div_ceil(9).max(1);
        let bottom = self.top + self.height;
        for (place, size) in powers.into_iter().step_by(every).enumerate() {
            let at = self.x(size);
            *text += &stroke([at; 2], [self.top, bottom], "class='grid minor'");
            if said {
                // A page leaves every other one out where it is narrow.
                let look = if place % 2 == 1 {
                    "class='x odd'"
                } else {
                    "class='x'"
                };
                *text += &label(at, bottom + 17.0, look, &bytes(size));
            }
        }
    }

    /// Labels the vertical axis.
    pub fn unit(&self, text: &mut String, unit: &str) {
        let middle = self.top + self.height / 2.0;
        let turned = format!("class='x unit' transform='translate(14 {middle:.1}) rotate(-90)'");
        *text += &format!("<text {turned}>{unit}</text>");
    }

    /// Labels the horizontal axis.
    pub fn below(&self, text: &mut String, what: &str) {
        let (x, y) = (self.left + self.width / 2.0, self.top + self.height + 36.0);
        *text += &label(x, y, "class='x below'", what);
    }

    /// Draws a line with its marks and quartiles.
    pub fn line(&self, text: &mut String, place: usize, line: &Line) {
        let colour = colour(place);
        let at = |(size, value, _): &(usize, f64, _)| {
            format!("{:.1},{:.1}", self.x(*size), self.y(*value))
        };
        let path: Vec<String> = line.points.iter().map(at).collect();
        *text += &format!("<polyline points='{}' stroke='{colour}'/>", path.join(" "));
        for (size, value, quartiles) in &line.points {
            let x = self.x(*size);
            let ends = quartiles.map(|value| self.y(value));
            *text += &stroke([x; 2], ends, &format!("stroke='{colour}'"));
            *text += &mark(place, x, self.y(*value));
        }
    }
}

/// Draws the names of the lines with points, in rows that fit, and returns the height of these.
fn legend(lines: &[Line]) -> (String, f64) {
    let (mut text, mut at, mut row) = (String::new(), LEFT, 16.0);
    for (place, line) in lines.iter().enumerate() {
        if line.points.is_empty() {
            continue;
        }
        // An estimate of the text's width.
        let width = 38.0 + 6.6 * line.name.chars().count() as f64;
        if at + width > WIDTH && at > LEFT {
            (at, row) = (LEFT, row + LEAD);
        }
        let look = format!("stroke='{}' stroke-width='2'", colour(place));
        text += &stroke([at, at + 22.0], [row; 2], &look);
        text += &mark(place, at + 11.0, row);
        text += &label(at + 27.0, row + 4.0, "", &escape(&line.name));
        at += width + 7.0;
    }
    (text, row + LEAD)
}

/// The least and the most of bytes and of values, with a little room; none if there is nothing to
/// draw a line of.
pub fn ranges(lines: &[Line]) -> Option<((usize, usize), (f64, f64))> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let sizes = || points().map(|point| point.0);
    let (first, last) = (sizes().min()?, sizes().max()?);
    let values = points().flat_map(|(_, value, [lower, upper])| [*value, *lower, *upper]);
    let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min) / 1.15;
    let most = values.iter().copied().fold(0.0, f64::max) * 1.15;
    if first == last || values.is_empty() {
        return None;
    }
    // At least a factor of ten, since a smaller range would exaggerate differences.
    Some(((first, last), (least, most.max(least * 10.0))))
}

/// The lines with axes and legend, and the frame that they are in: what is below it is for the
/// caller.
pub fn chart(text: &mut String, unit: &str, lines: &[Line]) -> Option<Frame> {
    let (names, top) = legend(lines);
    let frame = axes(text, unit, lines, top)?;
    text.push_str(&names);
    Some(frame)
}

/// The axis upwards, and the frame, which begins at `top`.
fn axes(text: &mut String, unit: &str, lines: &[Line], top: f64) -> Option<Frame> {
    let (sizes, values) = ranges(lines)?;
    let frame = Frame {
        left: LEFT,
        top,
        width: WIDTH - LEFT - RIGHT,
        height: HEIGHT - 34.0 - BOTTOM,
        sizes,
        values,
    };
    frame.levels(text);
    frame.unit(text, unit);
    Some(frame)
}

/// The picture for a page, if there is something to show: `unit` is that of the values. The legend
/// is text of the page, which breaks where the screen ends; the page's style sheet says how all
/// looks.
pub fn svg(title: &str, unit: &str, lines: &[Line]) -> Option<String> {
    let mut inside = String::new();
    let frame = axes(&mut inside, unit, lines, 10.0)?;
    frame.powers(&mut inside, true);
    frame.below(&mut inside, "bytes");
    for (place, line) in lines.iter().enumerate() {
        frame.line(&mut inside, place, line);
    }
    let mut text = String::from("<div class='legend'>");
    for (place, line) in lines.iter().enumerate() {
        if line.points.is_empty() {
            continue;
        }
        let look = format!("stroke='{}' stroke-width='2'", colour(place));
        let dash = stroke([0.0, 22.0], [5.0; 2], &look) + &mark(place, 11.0, 5.0);
        let name = escape(&line.name);
        text += &format!("<span><svg viewBox='0 0 22 10'>{dash}</svg>{name}</span> ");
    }
    let (height, title) = (frame.top + frame.height + BOTTOM, escape(title));
    let about = format!("role='img' aria-label='{title}: {unit} by bytes'");
    text += &format!("</div><svg viewBox='0 0 {WIDTH} {height}' {about}>{inside}</svg>");
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
        assert_eq!(
            [0.05, 0.2, 5.0, 2000.0].map(plain),
            ["0.05", "0.2", "5", "2000"]
        );
    }

    fn line(name: &str) -> Line {
        Line {
            name: name.to_owned(),
            points: vec![(8, 1.0, [0.9, 1.1]), (1024, 20.0, [19.0, 22.0])],
        }
    }

    #[test]
    fn numbers_beside_axes_are_short() {
        let values = [0.05, 0.2, 5.0, 1e3, 5e3, 1e4, 2e5, 1e6, 5e7];
        let said = values.map(plain);
        let expected = [
            "0.05", "0.2", "5", "1000", "5000", "10 k", "200 k", "1000 k", "50 M",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_picture_has_a_line_for_each_library() {
        let picture = svg("latency", "µs", &[line("a<b"), line("c")]).unwrap();
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert!(
            picture.contains("a&lt;b") && picture.contains(">1 Ki<") && picture.contains(">µs<")
        );
        assert_eq!(picture.matches("<span>").count(), 2);
        assert!(svg("barrier", "µs", &[]).is_none());
    }

    #[test]
    fn each_colour_has_another_on_dark_ground() {
        let rules = on_dark();
        for (light, dark) in COLOURS.into_iter().zip(ON_DARK) {
            assert!(rules.contains(&format!("[stroke='{light}']{{stroke:{dark}}}")));
            let brightness = |colour: &str| {
                u32::from_str_radix(&colour[1..3], 16).unwrap()
                    + 2 * u32::from_str_radix(&colour[3..5], 16).unwrap()
            };
            assert!(brightness(dark) > brightness(light) + 100, "{light} {dark}");
        }
    }

    #[test]
    fn a_long_legend_takes_several_rows() {
        let names = [
            "Weft",
            "MPICH 4.0",
            "MPICH 4.3",
            "MPICH 5.0",
            "Intel MPI",
            "Open MPI 4.1",
            "Open MPI 5.0",
        ];
        let lines: Vec<Line> = names.map(line).into();
        let (text, height) = legend(&lines);
        assert!(height > 2.0 * LEAD, "{height}");
        for place in text.split("<text  x='").skip(1) {
            let at: f64 = place.split('\'').next().unwrap().parse().unwrap();
            let name = place.split(['>', '<']).nth(1).unwrap();
            assert!(
                at + 6.6 * name.chars().count() as f64 <= WIDTH,
                "{name} at {at}"
            );
        }
        let mut drawn = String::new();
        assert_eq!(chart(&mut drawn, "µs", &lines).unwrap().top, height);
    }
}
