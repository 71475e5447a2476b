//! COCO: boxes, polygons, masks in both kinds of runs, keypoints, captions.

use lacus_dataset::{Extend, Sample, Value};
use lacus_exchange::{ExportOptions, ImportOptions, from_coco, to_coco};
use lacus_table::WriteOptions;
use serde_json::{Value as Json, json};

use crate::support::{block_on, dataset, everything, png, put, reasons, skip, tree, values};

fn annotations() -> Json {
    json!({
        "info": {"year": 2026},
        "images": [
            {"id": 7, "file_name": "a.png", "height": 3, "width": 4, "license": 1},
            {"id": 9, "file_name": "b.png", "height": 2, "width": 2},
            {"id": 11, "file_name": "c.png", "height": 2, "width": 2},
        ],
        "categories": [
            {"id": 44, "name": "cat", "supercategory": "animal"},
            {"id": 3, "name": "person", "keypoints": ["nose", "toe"], "skeleton": [[1, 2]]},
        ],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 44, "bbox": [0.5, 1.0, 2.0, 1.5], "area": 2.5, "iscrowd": 0,
             "segmentation": [[0.0, 0.0, 1.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 2.0, 3.0, 3.0, 2.0, 3.0]]},
            {"id": 2, "image_id": 9, "category_id": 3, "bbox": [0, 0, 1, 1], "area": 1.0, "iscrowd": 1,
             "segmentation": {"counts": [1, 2, 1], "size": [2, 2]}},
            {"id": 3, "image_id": 7, "category_id": 3, "bbox": [1, 1, 1, 1], "area": 1.0, "iscrowd": 1,
             "segmentation": {"counts": "11110000000", "size": [3, 4]}, "keypoints": [1, 2, 2, 0, 0, 0], "num_keypoints": 1},
            {"id": 4, "image_id": 7, "caption": "a cat and a person"},
            {"id": 5, "image_id": 7, "caption": "two of them"},
        ],
    })
}

#[test]
fn all_of_it_comes_back() {
    let root = tempfile::tempdir().unwrap();
    for (name, height, width) in [("a", 3, 4), ("b", 2, 2), ("c", 2, 2)] {
        put(root.path(), &format!("images/{name}.png"), png(height, width, 5));
    }
    let mut coco = annotations();
    // Runs that fill 3 × 4 pixels: 1, 1, 1, 2, 1 and then 6 more in two runs.
    coco["annotations"][2]["segmentation"]["counts"] = json!([1, 1, 1, 2, 1, 6]);
    let source = put(root.path(), "annotations/instances.json", coco.to_string());
    block_on(async {
        let mut first = dataset().await;
        let report = from_coco(&mut first, &source, &ImportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (3, 0));
        let expected = [
            "image",
            "file_name",
            "image_id",
            "boxes",
            "categories",
            "annotation_ids",
            "areas",
            "iscrowd",
            "keypoints",
            "keypoints_of",
            "polygons",
            "polygons_of",
            "masks",
            "masks_of",
            "captions",
            "caption_ids",
        ];
        assert_eq!(report.columns, expected);
        assert_eq!(first.column("categories").unwrap().class_names(), ["cat", "person"]);
        let shapes = |name: &'static str| {
            let first = &first;
            async move { first.shapes(name, &[0, 1, 2]).await.unwrap() }
        };
        assert_eq!(shapes("boxes").await, [Some(vec![2, 4]), Some(vec![1, 4]), Some(vec![0, 4])]);
        assert_eq!(shapes("masks").await, [Some(vec![3, 4, 1]), Some(vec![2, 2, 1]), None]);
        // Only those that have some: the second thing of the first picture.
        assert_eq!(shapes("keypoints").await, [Some(vec![6, 1]), None, None]);
        let Some(Value::Sequence(outlines)) = &values(&first, "polygons").await[0] else { panic!() };
        assert_eq!(outlines.len(), 2);
        // [1, 2, 1] down the columns of 2 × 2 pixels.
        let Some(Value::Tensor(mask)) = &values(&first, "masks").await[1] else { panic!() };
        assert_eq!(mask.bytes(), [0, 1, 1, 0]);
        let Some(Value::Sequence(captions)) = &values(&first, "captions").await[0] else { panic!() };
        assert_eq!(captions[1], Value::Text("two of them".into()));

        let out = root.path().join("out");
        let report = to_coco(&first, &out, &ExportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (3, 0));
        let text = std::fs::read_to_string(out.join("annotations.json")).unwrap();
        let json: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(json["images"][0], json!({"id": 7, "file_name": "a.png", "height": 3, "width": 4}));
        assert_eq!(json["annotations"][0]["bbox"], json!([0.5, 1.0, 2.0, 1.5]));
        assert_eq!(json["annotations"][1]["segmentation"]["size"], json!([3, 4]));
        assert!(json["annotations"][1]["segmentation"]["counts"].is_string());
        assert_eq!(json["categories"][1]["skeleton"], json!([[1, 2]]));
        let mut second = dataset().await;
        from_coco(&mut second, &out, &ImportOptions::default()).await.unwrap();
        assert_eq!(everything(&first).await, everything(&second).await);

        // What came in: all ids, supercategories, and keypoints where there were some.
        let facts = |coco: &Json| {
            let id = |thing: &Json| thing["id"].as_i64().unwrap();
            let mut all: Vec<(i64, Json)> = coco["annotations"]
                .as_array()
                .unwrap()
                .iter()
                .map(|a| {
                    let kept =
                        ["image_id", "category_id", "bbox", "area", "keypoints", "num_keypoints", "caption"];
                    let numbers = |value: &Json| match value.as_array() {
                        Some(list) => json!(list.iter().map(Json::as_f64).collect::<Vec<_>>()),
                        None => value.clone(),
                    };
                    (id(a), kept.iter().map(|key| ((*key).to_owned(), numbers(&a[*key]))).collect())
                })
                .collect();
            all.sort_by_key(|(id, _)| *id);
            let images: Vec<(i64, Json)> =
                coco["images"].as_array().unwrap().iter().map(|i| (id(i), i["file_name"].clone())).collect();
            (all, images, coco["categories"].clone())
        };
        assert_eq!(facts(&json), facts(&coco));

        // Through a Parquet file, too.
        let wide = root.path().join("a.parquet");
        lacus_exchange::to_parquet(&first, &wide, &ExportOptions::default()).await.unwrap();
        let mut third = dataset().await;
        lacus_exchange::from_parquet(&mut third, &wide, &ImportOptions::default()).await.unwrap();
        to_coco(&third, &root.path().join("third"), &ExportOptions::default()).await.unwrap();
        let text = std::fs::read_to_string(root.path().join("third/annotations.json")).unwrap();
        assert_eq!(facts(&serde_json::from_str(&text).unwrap()), facts(&coco));
    });
}

#[test]
fn new_things_get_ids_of_their_own() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "images/a.png", png(3, 4, 5));
    let coco = json!({
        "images": [{"id": 7, "file_name": "a.png"}],
        "categories": [{"id": 44, "name": "cat", "supercategory": "animal"}],
        "annotations": [{"id": 30, "image_id": 7, "category_id": 44, "bbox": [0, 0, 510.66, 1]}],
    });
    let source = put(root.path(), "a.json", coco.to_string());
    block_on(async {
        let mut found = dataset().await;
        from_coco(&mut found, &source, &ImportOptions::default()).await.unwrap();
        // The same once more: every id is there twice.
        let append = ImportOptions { append: true, ..ImportOptions::default() };
        from_coco(&mut found, &source, &append).await.unwrap();
        found.add_class_names("categories", &["dog".to_owned()], &WriteOptions::default()).await.unwrap();
        let rows = Extend {
            columns: vec![
                ("image".to_owned(), vec![Sample::Encoded(png(2, 2, 1).into())].into()),
                ("file_name".to_owned(), vec![Sample::Text("a.png".into())].into()),
                ("boxes".to_owned(), vec![Sample::Json(json!([[0, 0, 1, 1]]))].into()),
                ("categories".to_owned(), vec![Sample::Json(json!(["dog"]))].into()),
            ],
            ..Extend::default()
        };
        found.extend(rows, &WriteOptions::default()).await.unwrap();
        let out = root.path().join("out");
        to_coco(&found, &out, &ExportOptions::default()).await.unwrap();
        let json: Json =
            serde_json::from_slice(&std::fs::read(out.join("annotations.json")).unwrap()).unwrap();
        let list = |of: &str, key: &str| -> Vec<Json> {
            json[of].as_array().unwrap().iter().map(|thing| thing[key].clone()).collect()
        };
        assert_eq!(list("images", "id"), [7, 8, 9]);
        // One file is listed twice, another of the same name has one of its own.
        assert_eq!(list("images", "file_name"), ["a.png", "a.png", "a_2.png"]);
        assert_eq!(list("annotations", "id"), [30, 31, 32]);
        assert_eq!(list("annotations", "image_id"), [7, 8, 9]);
        assert_eq!(list("annotations", "category_id"), [44, 44, 45]);
        assert_eq!(list("annotations", "bbox")[0], json!([0.0, 0.0, 510.66, 1.0]));
        assert_eq!(json["categories"][0], coco["categories"][0]);
        assert_eq!(json["categories"][1], json!({"id": 45, "name": "dog"}));
        let names: Vec<String> = tree(&out.join("images")).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a.png", "a_2.png"]);
    });
}

#[test]
fn names_of_images_are_kept() {
    let root = tempfile::tempdir().unwrap();
    for (seed, name) in ["a/x.png", "b/x.png", "y.png"].iter().enumerate() {
        put(root.path(), &format!("images/{name}"), png(3, 4, seed as u8));
    }
    let names = ["a/x.png", "b/x.png", "./y.png", "a/x.png"];
    let images: Vec<Json> =
        names.iter().enumerate().map(|(id, name)| json!({"id": id, "file_name": name})).collect();
    let source = put(root.path(), "a.json", json!({"images": images}).to_string());
    block_on(async {
        let mut found = dataset().await;
        from_coco(&mut found, &source, &ImportOptions::default()).await.unwrap();
        let out = root.path().join("out");
        to_coco(&found, &out, &ExportOptions::default()).await.unwrap();
        let json: Json =
            serde_json::from_slice(&std::fs::read(out.join("annotations.json")).unwrap()).unwrap();
        let list: Vec<&str> =
            json["images"].as_array().unwrap().iter().map(|i| i["file_name"].as_str().unwrap()).collect();
        assert_eq!(list, names);
        assert_eq!(tree(&out.join("images")), tree(&root.path().join("images")));
    });
}

#[test]
fn what_makes_no_sense_is_told() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a.png", png(3, 4, 5));
    put(root.path(), "c.png", b"no picture");
    let mut coco = annotations();
    coco["annotations"].as_array_mut().unwrap().extend([
        json!({"id": 20, "image_id": 7, "category_id": 44, "bbox": [0, 0, -1, 1]}),
        json!({"id": 21, "image_id": 8, "category_id": 44, "bbox": [0, 0, 1, 1]}),
        json!({"id": 22, "image_id": 7, "category_id": 45, "bbox": [0, 0, 1, 1]}),
        json!({"id": 23, "image_id": 7, "category_id": 44, "bbox": [0, 0, 1, 1], "segmentation": [[1, 2, 3]]}),
    ]);
    let source = put(root.path(), "instances.json", coco.to_string());
    block_on(async {
        let mut found = dataset().await;
        let report = from_coco(&mut found, &source, &skip()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (1, 7));
        let told = reasons(&report).join("\n");
        for reason in [
            "annotation 3: its mask makes no sense: its runs do not add up to 3 × 4 pixels",
            "annotation 20: [0.0, 0.0, -1.0, 1.0] is no box",
            "annotation 21: there is no image 8",
            "annotation 22: there is no category 45",
            "annotation 23: 3 numbers are no outline",
            "b.png: No such file",
            "c.png: column \"image\"",
        ] {
            assert!(told.contains(reason), "{reason}\n{told}");
        }
        let mut none = dataset().await;
        let error = from_coco(&mut none, &source, &ImportOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("annotation 3"), "{error}");
        assert_eq!((none.column_names().len(), none.table().version()), (0, 0));
    });
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "secret.png", png(3, 4, 5));
    let coco = json!({"images": [{"id": 1, "file_name": "../secret.png"}]});
    let source = put(root.path(), "in/a.json", coco.to_string());
    block_on(async {
        let mut found = dataset().await;
        let report = from_coco(&mut found, &source, &skip()).await.unwrap();
        assert_eq!(report.rows, 0);
        assert!(reasons(&report)[0].contains("leads out of the folder"), "{report:?}");
    });
}
