//! COCO comes in: pictures, and what is annotated in them, a row per picture.
//!
//! | column | type | is |
//! |---|---|---|
//! | `image`, `file_name`, `image_id` | image, text, int64 | the picture |
//! | `boxes` | bbox, LTWH in pixels | one per annotation |
//! | `categories` | class_label | one per annotation; its metadata keeps ids, supercategories and what else categories have |
//! | `annotation_ids` | int64 | one per annotation; -1 where it has none |
//! | `areas`, `iscrowd` | float64, uint8 | one per annotation, where some annotation says it |
//! | `keypoints` | keypoints | those of the annotations that have some; `keypoints_of` says whose each is, unless all have |
//! | `polygons` | polygon | all outlines; `polygons_of` says whose each is, unless it is one per annotation |
//! | `masks` | binary_mask, `(height, width, masks)` | those given as runs; `masks_of` says whose each is |
//! | `captions`, `caption_ids` | sequence[text], int64 | with the ids of their annotations |

use lacus_io::boxed;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use lacus_arrow::Cell;
use lacus_dataset::{ColumnSpec, Dataset};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use serde_json::{Map, json};

use crate::coco::{Annotation, Annotations, Counts, Segmentation, categories_note};
use crate::error::ExchangeError;
use crate::folder::{entries, media_column};
use crate::importer::{Feed, NewColumn, import};
use crate::options::{ImportOptions, Report};
use crate::rle;

/// Imports a COCO dataset: `source` is its file of annotations, or a directory with one. Pictures are looked for in
/// [`ImportOptions::images`], or beside the file.
///
/// Fails as [`ImportOptions::on_error`] says for pictures that are missing or broken (their rows are left out) and for
/// annotations that make no sense (the others of their picture are taken).
#[boxed]
pub async fn from_coco(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let source = source.to_owned();
    import(dataset, options, move |feed| read(feed, &source)).await
}

/// What there is in a file, which decides which columns there are.
#[derive(Default)]
struct Has {
    things: bool,
    categories: bool,
    areas: bool,
    crowds: bool,
    ids: bool,
    caption_ids: bool,
    keypoints: Option<u64>,
    /// Some annotation has none.
    some_keypoints: bool,
    polygons: bool,
    several_polygons: bool,
    masks: bool,
    captions: bool,
}

fn read(feed: &mut Feed, source: &Path) -> Result<(), ExchangeError> {
    let path = annotations_file(source)?;
    let bytes = fs::read(&path).map_err(ExchangeError::io(&path, "read"))?;
    let coco: Annotations = serde_json::from_slice(&bytes)
        .map_err(|error| ExchangeError::source(&path, format!("is no file of COCO annotations: {error}")))?;
    drop(bytes);
    let folder = images_folder(feed.options().images.as_deref(), source, &path, &coco)?;
    let places: HashMap<i64, usize> =
        coco.images.iter().enumerate().map(|(i, image)| (image.id, i)).collect();
    let classes: HashMap<i64, usize> =
        coco.categories.iter().enumerate().map(|(i, category)| (category.id, i)).collect();
    let has = look(&coco);
    let mut of_image: Vec<Vec<&Annotation>> = vec![Vec::new(); coco.images.len()];
    for annotation in &coco.annotations {
        feed.check()?;
        let why = match places.get(&annotation.image_id) {
            None => Some(format!("there is no image {}", annotation.image_id)),
            Some(_) => fault(annotation, &classes, &has),
        };
        match (why, places.get(&annotation.image_id)) {
            (None, Some(place)) => of_image[*place].push(annotation),
            (why, _) => {
                let id = annotation.id.map_or("without an id".to_owned(), |id| id.to_string());
                let place = format!("{}: annotation {id}", path.display());
                feed.bad(place, why.unwrap_or_default())?;
            }
        }
    }
    feed.columns(columns(&coco, &has), Some(coco.images.len() as u64))?;
    for (image, annotations) in coco.images.iter().zip(of_image) {
        let file = folder.join(&image.file_name);
        let place = file.display().to_string();
        let escapes = Path::new(&image.file_name)
            .components()
            .any(|part| !matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
        if escapes {
            feed.bad(place, "leads out of the folder of images")?;
            continue;
        }
        let content = match fs::read(&file) {
            Ok(content) => content,
            Err(error) => {
                feed.bad(place, error.to_string())?;
                continue;
            }
        };
        let mut cells = vec![Cell::Media(content.into()), Cell::text(&image.file_name), Cell::int(image.id)];
        match annotated(&annotations, &classes, &has) {
            Ok(annotated) => {
                cells.extend(annotated);
                feed.row(place, cells)?;
            }
            Err(why) => feed.bad(place, why)?,
        }
    }
    Ok(())
}

/// Whether something is annotated, not only said.
fn is_thing(annotation: &Annotation) -> bool {
    annotation.caption.is_none() || annotation.bbox.is_some()
}

/// The keypoints of an annotation; an empty list is none.
fn keypoints_of(annotation: &Annotation) -> Option<&Vec<f64>> {
    annotation.keypoints.as_ref().filter(|keypoints| !keypoints.is_empty())
}

fn look(coco: &Annotations) -> Has {
    let mut has = Has { categories: !coco.categories.is_empty(), ..Has::default() };
    for annotation in &coco.annotations {
        has.things |= annotation.bbox.is_some();
        has.areas |= annotation.area.is_some();
        has.crowds |= annotation.iscrowd.is_some_and(|crowd| crowd != 0);
        has.captions |= annotation.caption.is_some();
        has.ids |= is_thing(annotation) && annotation.id.is_some();
        has.caption_ids |= annotation.caption.is_some() && annotation.id.is_some();
        match keypoints_of(annotation) {
            Some(keypoints) => has.keypoints = has.keypoints.max(Some(keypoints.len() as u64)),
            None => has.some_keypoints |= is_thing(annotation),
        }
        match &annotation.segmentation {
            Some(Segmentation::Polygons(polygons)) => {
                has.polygons |= !polygons.is_empty();
                has.several_polygons |= polygons.len() != 1;
            }
            Some(Segmentation::Runs { .. }) => {
                has.masks = true;
                has.several_polygons = true;
            }
            None => has.several_polygons |= annotation.bbox.is_some(),
        }
    }
    has.categories &= coco.annotations.iter().any(|annotation| annotation.category_id.is_some());
    has
}

/// Why an annotation cannot be taken.
fn fault(annotation: &Annotation, classes: &HashMap<i64, usize>, has: &Has) -> Option<String> {
    if let Some(bbox) = &annotation.bbox {
        match bbox[..] {
            [x, y, width, height]
                if width >= 0.0 && height >= 0.0 && (x + y + width + height).is_finite() => {}
            _ => return Some(format!("{bbox:?} is no box of left, top, width and height")),
        }
    } else if has.things && annotation.caption.is_none() {
        return Some("it has no box, though others have".to_owned());
    }
    match annotation.category_id {
        Some(category) if !classes.contains_key(&category) => {
            return Some(format!("there is no category {category}"));
        }
        None if has.categories && annotation.caption.is_none() => {
            return Some("it has no category".to_owned());
        }
        _ => {}
    }
    if let Some(keypoints) = keypoints_of(annotation) {
        let (found, others) = (keypoints.len() as u64, has.keypoints.unwrap_or(0));
        if found % 3 != 0 {
            return Some(format!("expected three numbers for each of its keypoints, got {found} numbers"));
        }
        if found != others {
            let points = others / 3;
            let expected = format!("expected {points} keypoints ({others} numbers) like other annotations");
            return Some(format!("{expected}, got {found} numbers"));
        }
    }
    match &annotation.segmentation {
        Some(Segmentation::Polygons(polygons)) => {
            let odd = polygons.iter().find(|polygon| polygon.len() < 6 || polygon.len() % 2 != 0);
            odd.map(|polygon| format!("{} numbers are no outline", polygon.len()))
        }
        Some(Segmentation::Runs { counts, size }) => runs(counts, *size).err(),
        None => None,
    }
}

/// Lengths of runs that fill a mask.
fn runs(counts: &Counts, [height, width]: [u64; 2]) -> Result<Vec<u64>, String> {
    let wrong = |why| format!("its mask makes no sense: {why}");
    let counts = match counts {
        Counts::Text(text) => rle::parse(text).map_err(wrong)?,
        Counts::Numbers(numbers) => numbers.clone(),
    };
    let sum = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    match Some(sum) == height.checked_mul(width) {
        true => Ok(counts),
        false => Err(wrong(format!("its runs do not add up to {height} × {width} pixels"))),
    }
}

fn columns(coco: &Annotations, has: &Has) -> Vec<NewColumn> {
    let list = |name: &str, dtype: DType| {
        NewColumn::new(
            name,
            ColumnSpec { dtype: Some(dtype), shape: Some(vec![None]), ..ColumnSpec::default() },
        )
    };
    let typed = |name: &str, htype: &str, shape: Option<Vec<Option<u64>>>, options: serde_json::Value| {
        let options = options.as_object().cloned().unwrap_or_else(Map::new);
        let dtype = (htype == "keypoints").then_some(DType::F32);
        NewColumn::new(
            name,
            ColumnSpec { htype: Some(htype.into()), dtype, shape, options, compression: None },
        )
    };
    let mut columns = vec![
        media_column("image", lacus_media::Family::Image),
        NewColumn::of("file_name", "text"),
        NewColumn::new(
            "image_id",
            ColumnSpec { dtype: Some(DType::I64), shape: Some(Vec::new()), ..ColumnSpec::default() },
        ),
    ];
    if has.things {
        columns.push(typed("boxes", "bbox", None, json!({"coords": {"type": "pixel", "mode": "LTWH"}})));
    }
    if has.categories {
        let names: Vec<&str> = coco.categories.iter().map(|category| category.name.as_str()).collect();
        let names = unique(&names);
        let note = categories_note(&coco.categories, &names);
        let options = json!({"class_names": names});
        columns.push(typed("categories", "class_label", Some(vec![None]), options).with_metadata(note));
    }
    if has.ids {
        columns.push(list("annotation_ids", DType::I64));
    }
    if has.areas {
        columns.push(list("areas", DType::F64));
    }
    if has.crowds {
        columns.push(list("iscrowd", DType::U8));
    }
    if let Some(numbers) = has.keypoints {
        let named = coco.categories.iter().find(|category| {
            category.keypoints.as_ref().is_some_and(|names| names.len() as u64 * 3 == numbers)
        });
        let mut options = json!({});
        if let Some(category) = named {
            let connections: Vec<[i64; 2]> = category
                .skeleton
                .iter()
                .flatten()
                .map(|[a, b]| [a - 1, b - 1])
                .filter(|[a, b]| a.min(b) >= &0)
                .collect();
            options = json!({"keypoints": category.keypoints, "connections": connections});
        }
        columns.push(typed("keypoints", "keypoints", None, options));
        if has.some_keypoints {
            columns.push(list("keypoints_of", DType::I32));
        }
    }
    if has.polygons {
        columns.push(typed("polygons", "polygon", None, json!({})));
        if has.several_polygons {
            columns.push(list("polygons_of", DType::I32));
        }
    }
    if has.masks {
        columns.push(typed("masks", "binary_mask", Some(vec![None, None, None]), json!({})));
        columns.push(list("masks_of", DType::I32));
    }
    if has.captions {
        columns.push(typed("captions", "sequence[text]", None, json!({})));
        if has.caption_ids {
            columns.push(list("caption_ids", DType::I64));
        }
    }
    columns
}

/// Names that differ: a second `crane` is `crane_2`.
fn unique(names: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let name = if name.is_empty() { "_" } else { name };
        let mut candidate = name.to_owned();
        let mut number = 2;
        while all.contains(&candidate) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        all.push(candidate);
    }
    all
}

/// The cells of what is annotated in a picture.
fn annotated(
    annotations: &[&Annotation],
    classes: &HashMap<i64, usize>,
    has: &Has,
) -> Result<Vec<Cell>, String> {
    let things: Vec<&&Annotation> = annotations.iter().filter(|a| is_thing(a)).collect();
    let wrong = |error: lacus_tensor::TensorError| error.to_string();
    let tensor = |dtype: DType, dims: &[u64], buffer: Buffer| -> Result<Cell, String> {
        let shape = Shape::new(dims).map_err(wrong)?;
        Ok(Cell::Tensor(Box::new(Tensor::new(dtype, shape, buffer).map_err(wrong)?)))
    };
    let count = things.len() as u64;
    let mut cells = Vec::new();
    if has.things {
        let numbers: Vec<f32> =
            things.iter().flat_map(|a| a.bbox.iter().flatten()).map(|n| *n as f32).collect();
        cells.push(tensor(DType::F32, &[count, 4], Buffer::from_elements(&numbers))?);
    }
    if has.categories {
        let numbers: Vec<u32> =
            things.iter().filter_map(|a| classes.get(&a.category_id?).map(|class| *class as u32)).collect();
        cells.push(Cell::numbers(DType::U32, &numbers).map_err(wrong)?);
    }
    if has.ids {
        let ids: Vec<i64> = things.iter().map(|a| a.id.unwrap_or(-1)).collect();
        cells.push(Cell::numbers(DType::I64, &ids).map_err(wrong)?);
    }
    if has.areas {
        let numbers: Vec<f64> = things.iter().map(|a| a.area.unwrap_or(f64::NAN)).collect();
        cells.push(Cell::numbers(DType::F64, &numbers).map_err(wrong)?);
    }
    if has.crowds {
        let numbers: Vec<u8> = things.iter().map(|a| u8::from(a.iscrowd.unwrap_or(0) != 0)).collect();
        cells.push(Cell::numbers(DType::U8, &numbers).map_err(wrong)?);
    }
    if let Some(numbers) = has.keypoints {
        // Things are columns; those without keypoints have none.
        let (mut of, mut found) = (Vec::new(), Vec::new());
        for (place, annotation) in things.iter().enumerate() {
            if let Some(keypoints) = keypoints_of(annotation) {
                of.push(place as i32);
                found.push(keypoints);
            }
        }
        let number = |(row, place): (u64, usize)| found[place][row as usize] as f32;
        let all: Vec<f32> = (0..numbers)
            .flat_map(|row| (0..found.len()).map(move |place| (row, place)))
            .map(number)
            .collect();
        let is_missing = found.is_empty() && has.some_keypoints;
        cells.push(match is_missing {
            true => Cell::Missing,
            false => tensor(DType::F32, &[numbers, found.len() as u64], Buffer::from_elements(&all))?,
        });
        if has.some_keypoints {
            cells.push(match is_missing {
                true => Cell::Missing,
                false => Cell::numbers(DType::I32, &of).map_err(wrong)?,
            });
        }
    }
    if has.polygons {
        let (mut outlines, mut of) = (Vec::new(), Vec::new());
        for (place, annotation) in things.iter().enumerate() {
            let Some(Segmentation::Polygons(polygons)) = &annotation.segmentation else { continue };
            for polygon in polygons {
                let numbers: Vec<f32> = polygon.iter().map(|n| *n as f32).collect();
                let dims = [polygon.len() as u64 / 2, 2];
                outlines.push(tensor(DType::F32, &dims, Buffer::from_elements(&numbers))?);
                of.push(place as i32);
            }
        }
        cells.push(Cell::List(outlines));
        if has.several_polygons {
            cells.push(Cell::numbers(DType::I32, &of).map_err(wrong)?);
        }
    }
    if has.masks {
        let (masks, of) = masks(&things)?;
        cells.push(masks);
        cells.push(match of.is_empty() {
            true => Cell::Missing,
            false => Cell::numbers(DType::I32, &of).map_err(wrong)?,
        });
    }
    if has.captions {
        let captions: Vec<Cell> =
            annotations.iter().filter_map(|a| a.caption.clone()).map(Cell::Text).collect();
        let is_missing = captions.is_empty();
        cells.push(if is_missing { Cell::Missing } else { Cell::List(captions) });
        if has.caption_ids {
            let ids: Vec<i64> =
                annotations.iter().filter(|a| a.caption.is_some()).map(|a| a.id.unwrap_or(-1)).collect();
            cells.push(match is_missing {
                true => Cell::Missing,
                false => Cell::numbers(DType::I64, &ids).map_err(wrong)?,
            });
        }
    }
    Ok(cells)
}

/// The masks of a picture behind each other, and whose they are.
fn masks(things: &[&&Annotation]) -> Result<(Cell, Vec<i32>), String> {
    let mut found = Vec::new();
    for (place, annotation) in things.iter().enumerate() {
        if let Some(Segmentation::Runs { counts, size }) = &annotation.segmentation {
            found.push((place as i32, counts, *size));
        }
    }
    let Some((_, _, size)) = found.first() else { return Ok((Cell::Missing, Vec::new())) };
    let [height, width] = *size;
    if let Some((_, _, other)) = found.iter().find(|(_, _, other)| other != size) {
        return Err(format!("its masks have different sizes: {size:?} and {other:?}"));
    }
    let count = found.len();
    // A picture of masks is refused before it takes memory.
    let pixels = height.saturating_mul(width).saturating_mul(count as u64);
    if pixels > 1 << 30 {
        return Err(format!("{count} masks of {height} × {width} pixels are too much"));
    }
    let mut all = Buffer::zeroed(pixels as usize);
    for (layer, (_, counts, size)) in found.iter().enumerate() {
        let mask = rle::decode(&runs(counts, *size)?, height, width)?;
        for (place, pixel) in mask.into_iter().enumerate() {
            all[place * count + layer] = pixel;
        }
    }
    let shape = Shape::new([height, width, count as u64]).map_err(|error| error.to_string())?;
    let tensor = Tensor::new(DType::Bool, shape, all).map_err(|error| error.to_string())?;
    Ok((Cell::Tensor(Box::new(tensor)), found.into_iter().map(|(place, ..)| place).collect()))
}

/// The file of annotations: `source` itself, or the only `.json` file in it or in `annotations` below it.
fn annotations_file(source: &Path) -> Result<PathBuf, ExchangeError> {
    if !source.is_dir() {
        return Ok(source.to_owned());
    }
    let is_json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut found: Vec<PathBuf> = entries(source)?.into_iter().filter(is_json).collect();
    let below = source.join("annotations");
    if found.is_empty() && below.is_dir() {
        found = entries(&below)?.into_iter().filter(is_json).collect();
    }
    match &found[..] {
        [path] => Ok(path.clone()),
        [] => Err(ExchangeError::source(source, "there is no .json file of annotations in it")),
        _ => Err(ExchangeError::source(
            source,
            format!("there are {} .json files in it: name one", found.len()),
        )),
    }
}

/// Where the first picture is found: as given, or one of the places where COCO is usually unpacked.
fn images_folder(
    given: Option<&Path>,
    source: &Path,
    path: &Path,
    coco: &Annotations,
) -> Result<PathBuf, ExchangeError> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let beside = path.parent().unwrap_or(Path::new("")).to_owned();
    let above = beside.parent().map(Path::to_owned);
    // instances_train2017.json goes with train2017.
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let split = stem.rsplit('_').next().unwrap_or_default().to_owned();
    let mut candidates = Vec::new();
    for root in
        [Some(beside.clone()), above, source.is_dir().then(|| source.to_owned())].into_iter().flatten()
    {
        candidates.extend([root.join("images"), root.join(&split), root.join("images").join(&split), root]);
    }
    let has =
        |folder: &PathBuf| coco.images.iter().take(100).any(|image| folder.join(&image.file_name).is_file());
    match candidates.into_iter().find(has) {
        Some(folder) => Ok(folder),
        None if coco.images.is_empty() => Ok(beside),
        None => Err(ExchangeError::source(path, "its images are not beside it: say where they are")),
    }
}
