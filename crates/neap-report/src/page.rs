//! A page with plots that explores a recording: one file, which needs no other and no network.
//!
//! Invariant: what the recording says is data in the page, never markup: the program's own names
//! cannot end the script that holds it. Pure.

use crate::json;
use crate::sites::Site;
use crate::unfinished::Unfinished;
use neap_record::Recording;
use serde_json::json;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const AXIS: &str = include_str!("page/axis.js");
const PLOT: &str = include_str!("page/plot.js");
const FLAME: &str = include_str!("page/flame.js");
const SCRIPT: &str = include_str!("page/page.js");

/// The page.
pub fn html(recording: &Recording, sites: &[Site]) -> String {
    let mut summary = json::json(recording, sites);
    // The page draws the thinned series.
    summary["cycles"] = recording.cycles.len().into();
    summary["is_cut"] = Unfinished::of(recording).is_some().into();
    let data = json!({ "summary": summary, "series": json::series(recording) }).to_string();
    let title = recording.process.command.first().map_or("recording", String::as_str);
    // `<` is written so that no text can end the script or open a comment in it.
    let data = data.replace('<', "\\u003c");
    // Nothing is replaced in the texts that come from the recording.
    let template = TEMPLATE
        .replace("/*STYLE*/", STYLE)
        .replace("/*AXIS*/", AXIS)
        .replace("/*PLOT*/", PLOT)
        .replace("/*FLAME*/", FLAME)
        .replace("/*SCRIPT*/", SCRIPT);
    let (head, rest) = template.split_once("TITLE").unwrap_or((&template, ""));
    let (between, end) = rest.split_once("/*DATA*/").unwrap_or((rest, ""));
    [head, &escaped(title), between, &data, end].concat()
}

fn escaped(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            letter => letter.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::sample;

    #[test]
    fn one_file_that_names_no_other() {
        let page = html(&sample(), &[]);
        for foreign in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("\"objects\":22"));
        for left in ["/*STYLE*/", "/*AXIS*/", "/*FLAME*/", "/*PLOT*/", "/*SCRIPT*/", "/*DATA*/"] {
            assert!(!page.contains(left));
        }
    }

    #[test]
    fn names_stay_data() {
        let mut recording = sample();
        recording.process.command = vec!["</script><b>&/*DATA*/".to_owned()];
        let page = html(&recording, &[]);
        assert_eq!(
            page.matches("</script>").count(),
            html(&sample(), &[]).matches("</script>").count()
        );
        let data = page.split_once("type=\"application/json\">").unwrap().1;
        let data = data.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(data).expect("the data alone");
        assert_eq!(data["summary"]["process"]["command"][0], recording.process.command[0]);
        assert!(page.contains("&lt;/script&gt;&lt;b&gt;&amp;") && !page.contains("<b>"));
    }
}
