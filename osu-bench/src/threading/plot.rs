//! A curve for each series, as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::error::{Error, Result};

/// Points of one colour, with a name.
pub struct Series {
    /// What it is.
    pub name: String,
    /// Where it is.
    pub points: Vec<(f64, f64)>,
}

/// Writes a picture with logarithmic axes.
pub fn draw(file: &Path, title: &str, x: &str, y: &str, series: &[Series]) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| Error::new(format!("{}: {error}", file.display()));
    let all = || series.iter().flat_map(|one| one.points.iter().copied());
    let low = |of: fn((f64, f64)) -> f64| all().map(of).fold(f64::INFINITY, f64::min);
    let high = |of: fn((f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
    let (first, last) = (low(|point| point.0), high(|point| point.0));
    let (bottom, top) = (low(|point| point.1), high(|point| point.1));
    if first > last || bottom <= 0.0 {
        return Err(Error::new(
            "the results have no values to plot; run the benchmark first",
        ));
    }
    let root = SVGBackend::new(file, (900, 560)).into_drawing_area();
    root.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(90)
        .build_cartesian_2d(
            (first * 0.9..last * 1.1).log_scale(),
            (bottom * 0.7..top * 1.4).log_scale(),
        )
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .draw()
        .map_err(|error| failed(&error))?;
    for (place, one) in series.iter().enumerate() {
        let colour = Palette99::pick(place).to_rgba();
        let line = LineSeries::new(one.points.clone(), colour.stroke_width(2)).point_size(4);
        chart
            .draw_series(line)
            .map_err(|error| failed(&error))?
            .label(&one.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(|error| failed(&error))?;
    root.present().map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_its_series() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let series = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            points: [1.0, 2.0, 4.0].map(|x| (x, x * factor)).to_vec(),
        };
        let all = [series("one", 1e6), series("other", 2e6)];
        draw(file.path(), "rates", "threads", "1/s", &all).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        for word in ["<svg", "rates", "threads", "one", "other"] {
            assert!(text.contains(word), "{word} is not in the picture");
        }
        assert!(draw(file.path(), "", "", "", &[]).is_err());
    }
}
