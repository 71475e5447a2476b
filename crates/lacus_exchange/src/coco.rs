//! COCO's annotations, as their JSON has them.

use serde::{Deserialize, Serialize};

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
    #[serde(default)]
    pub id: i64,
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

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Category {
    pub id: i64,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keypoints: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skeleton: Option<Vec<[i64; 2]>>,
}
