//! COCO's annotations, as their JSON has them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

/// A file of annotations. What is not here is passed over.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Annotations {
    pub images: Vec<Image>,
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    #[serde(default)]
    pub categories: Vec<Category>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Image {
    pub id: i64,
    pub file_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Annotation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    pub image_id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category_id: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bbox: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segmentation: Option<Segmentation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keypoints: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_keypoints: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscrowd: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
}

/// Outlines, or a mask as runs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Segmentation {
    Polygons(Vec<Vec<f64>>),
    Runs { counts: Counts, size: [u64; 2] },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Counts {
    Text(String),
    Numbers(Vec<u64>),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Category {
    pub id: i64,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keypoints: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skeleton: Option<Vec<[i64; 2]>>,
    /// The supercategory, and whatever else somebody put there.
    #[serde(flatten)]
    pub other: Map<String, Json>,
}

/// The key of a column's metadata for what COCO says and no column has a place for.
pub(crate) const COCO_KEY: &str = "coco";

/// What the column of categories keeps: the categories as they came, by the names of their classes.
pub(crate) fn categories_note(categories: &[Category], class_names: &[String]) -> Option<Json> {
    let noted =
        |(category, name): (&Category, &String)| Some((name.clone(), serde_json::to_value(category).ok()?));
    let all: Option<Map<String, Json>> = categories.iter().zip(class_names).map(noted).collect();
    Some(json!({COCO_KEY: {"categories": all?}}))
}

/// The category that a class came as.
pub(crate) fn category_of(metadata: Option<&Json>, class_name: &str) -> Option<Category> {
    let noted = metadata?.get(COCO_KEY)?.get("categories")?.get(class_name)?;
    serde_json::from_value(noted.clone()).ok()
}
