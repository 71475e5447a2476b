//! COCO goes out: `images/` and `annotations.json`, from whichever columns are of its types.
//!
//! Ids are those that came in. What has none, or one that something before it has, gets a number above all others.

use lacus_io::boxed;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use lacus_arrow::Cell;
use lacus_dataset::{Base, Dataset};
use lacus_media::Format;
use serde_json::Value as Json;

use crate::coco::{Annotation, Annotations, Category, Counts, Image, Segmentation, category_of};
use crate::error::ExchangeError;
use crate::exporter::{OutColumn, chosen, export_rows, new_directory};
use crate::folder::write_file;
use crate::names::{FileNames, relative_path};
use crate::options::{ExportOptions, Report};
use crate::rle;

/// Exports to a new directory with `images/` and `annotations.json`. Taken are the first columns of images, boxes, class
/// labels (a list per row), polygons, masks, keypoints and texts in sequences, and `image_id`, `file_name`, `annotation_ids`,
/// `areas`, `iscrowd`, `keypoints_of`, `polygons_of`, `masks_of` and `caption_ids` by their names, as
/// [`from_coco`](crate::from_coco) makes them. Ids of images, annotations and categories are kept, and so are names of files:
/// of several different files of one name, those after the first get a number.
///
/// The directory appears whole or not at all. Rows without a picture are left out, as [`ExportOptions::on_error`] says.
#[boxed]
pub async fn to_coco(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let all = chosen(dataset, options)?;
    let plan = Plan::of(&all)?;
    let mut report =
        Report { columns: plan.columns.iter().map(|c| c.name.clone()).collect(), ..Report::default() };
    let directory = new_directory(dest)?;
    let mut coco = Annotations { categories: plan.categories(), ..Annotations::default() };
    let mut image_ids: Vec<Option<i64>> = Vec::new();
    // Which image of the list each annotation is of.
    let mut of_image: Vec<usize> = Vec::new();
    let images = directory.path().join("images");
    std::fs::create_dir(&images).map_err(ExchangeError::io(dest, "make"))?;
    let mut names = FileNames::default();
    export_rows(dataset, &plan.columns, options, &mut report, |report, row, cells| {
        let place = format!("row {row}");
        let Some(Cell::Media(bytes)) = plan.get(&cells, "image") else {
            return report.skip(options.on_error, place, "it has no image".to_owned());
        };
        let facts = match lacus_media::probe(bytes) {
            Ok(facts) => facts,
            Err(error) => return report.skip(options.on_error, place, error.to_string()),
        };
        let id = match plan.place("image_id") {
            Some(place) => cells[place].as_int(),
            None => Some(row as i64),
        };
        let given = match plan.get(&cells, "file_name") {
            Some(Cell::Text(name)) => name.clone(),
            _ => format!("{row:012}.{}", Format::extension(facts.format)),
        };
        let (height, width) = (facts.shape.first().copied(), facts.shape.get(1).copied());
        let things = match plan.things(&cells, &coco.categories, (height.unwrap_or(0), width.unwrap_or(0))) {
            Ok(things) => things,
            Err(why) => return report.skip(options.on_error, place, why),
        };
        let safe = relative_path(&given);
        // One file may be listed several times.
        let same = |name: &str| std::fs::read(images.join(name)).is_ok_and(|there| there == bytes[..]);
        let (name, is_new) = names.take(&safe, same);
        if is_new {
            write_file(&images.join(&name), bytes)?;
        }
        // The name as it came leads to the same file, perhaps by `./`.
        let leads_there = given.split('/').filter(|part| *part != ".").eq(name.split('/'));
        let file_name = if leads_there { given } else { name };
        of_image.extend(std::iter::repeat_n(coco.images.len(), things.len()));
        coco.images.push(Image { id: 0, file_name, height, width });
        image_ids.push(id);
        coco.annotations.extend(things);
        report.rows += 1;
        report.bytes += cells.iter().map(Cell::bytes).sum::<u64>();
        Ok(())
    })
    .await?;
    for (image, id) in coco.images.iter_mut().zip(unique(&image_ids)) {
        image.id = id;
    }
    let ids = unique(&coco.annotations.iter().map(|annotation| annotation.id).collect::<Vec<_>>());
    for ((annotation, id), image) in coco.annotations.iter_mut().zip(ids).zip(of_image) {
        (annotation.id, annotation.image_id) = (Some(id), coco.images[image].id);
    }
    let text = serde_json::to_vec(&coco).map_err(|error| ExchangeError::Fault(error.to_string()))?;
    write_file(&directory.path().join("annotations.json"), &text)?;
    directory.keep()?;
    Ok(report)
}

/// Ids that differ: those that are known and are no second ones, and numbers above all of them for the others.
fn unique(ids: &[Option<i64>]) -> Vec<i64> {
    let mut taken = HashSet::with_capacity(ids.len());
    let mut next = ids.iter().flatten().max().map_or(1, |largest| largest.saturating_add(1).max(1));
    let first: Vec<bool> = ids.iter().map(|id| id.is_some_and(|id| taken.insert(id))).collect();
    let mut fresh = || {
        // Above the largest there is room, except above the largest of all numbers.
        while !taken.insert(next) {
            next = next.wrapping_add(1);
        }
        next
    };
    ids.iter().zip(first).map(|(id, is_first)| id.filter(|_| is_first).unwrap_or_else(&mut fresh)).collect()
}

/// Which column plays which part.
struct Plan {
    columns: Vec<OutColumn>,
    parts: Vec<&'static str>,
}

impl Plan {
    fn of(all: &[OutColumn]) -> Result<Plan, ExchangeError> {
        let by_type = |base: Base, sequence: bool, rank: Option<usize>| {
            let fits = |column: &&OutColumn| {
                let htype = column.column.htype();
                let same_rank = rank.is_none() || column.column.shape().map(<[_]>::len) == rank;
                htype.base == base && htype.sequence == sequence && same_rank
            };
            all.iter().find(fits)
        };
        let by_name = |name: &str| all.iter().find(|column| column.name.rsplit('/').next() == Some(name));
        let image = by_type(Base::Image, false, None).or(by_type(Base::ImageGray, false, None));
        if image.is_none() {
            return Err(ExchangeError::Lacking("there is no column of images".to_owned()));
        }
        let parts = [
            ("image", image),
            ("boxes", by_type(Base::BBox, false, Some(2))),
            ("categories", by_type(Base::ClassLabel, false, Some(1))),
            ("polygons", by_type(Base::Polygon, false, None)),
            ("masks", by_type(Base::BinaryMask, false, Some(3))),
            ("keypoints", by_type(Base::Keypoints, false, None)),
            ("captions", by_type(Base::Text, true, None)),
            ("image_id", by_name("image_id")),
            ("file_name", by_name("file_name")),
            ("annotation_ids", by_name("annotation_ids")),
            ("caption_ids", by_name("caption_ids")),
            ("keypoints_of", by_name("keypoints_of")),
            ("areas", by_name("areas")),
            ("iscrowd", by_name("iscrowd")),
            ("polygons_of", by_name("polygons_of")),
            ("masks_of", by_name("masks_of")),
        ];
        let (mut names, mut columns) = (Vec::new(), Vec::new());
        for (part, column) in parts {
            if let Some(column) = column {
                names.push(part);
                columns.push(column.clone());
            }
        }
        Ok(Plan { columns, parts: names })
    }

    fn place(&self, part: &str) -> Option<usize> {
        self.parts.iter().position(|name| *name == part)
    }

    fn get<'a>(&self, cells: &'a [Cell], part: &str) -> Option<&'a Cell> {
        self.place(part).map(|place| &cells[place])
    }

    fn doubles(&self, cells: &[Cell], part: &str) -> Option<Vec<f64>> {
        self.get(cells, part).and_then(Cell::doubles)
    }

    /// The ids of a row, and whether there are any: -1 is none.
    fn ids(&self, cells: &[Cell], part: &str) -> Vec<Option<i64>> {
        let numbers = self.get(cells, part).and_then(Cell::elements);
        let Some((lacus_tensor::DType::I64, _, bytes)) = numbers else { return Vec::new() };
        bytes.as_chunks().0.iter().map(|id| Some(i64::from_le_bytes(*id)).filter(|id| *id != -1)).collect()
    }

    fn categories(&self) -> Vec<Category> {
        let Some(place) = self.place("categories") else { return Vec::new() };
        let points = self.place("keypoints").map(|place| self.columns[place].column.options().clone());
        let list = |key: &str| points.as_ref().and_then(|options| options.get(key)).and_then(Json::as_array);
        let keypoints: Option<Vec<String>> = list("keypoints")
            .map(|names| names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect());
        let skeleton: Option<Vec<[i64; 2]>> = list("connections").map(|pairs| {
            let pair = |pair: &Json| Some([pair.get(0)?.as_i64()? + 1, pair.get(1)?.as_i64()? + 1]);
            pairs.iter().filter_map(pair).collect()
        });
        let OutColumn { column, metadata, .. } = &self.columns[place];
        let known: Vec<Option<Category>> =
            column.class_names().iter().map(|name| category_of(metadata.as_ref(), name)).collect();
        let ids = unique(&known.iter().map(|known| known.as_ref().map(|known| known.id)).collect::<Vec<_>>());
        let category = |((name, known), id): ((&String, Option<Category>), i64)| match known {
            Some(known) => Category { id, ..known },
            None => Category {
                id,
                name: name.clone(),
                keypoints: keypoints.clone(),
                skeleton: skeleton.clone(),
                ..Category::default()
            },
        };
        column.class_names().iter().zip(known).zip(ids).map(category).collect()
    }

    /// The annotations of a picture, whose id comes later.
    fn things(
        &self,
        cells: &[Cell],
        categories: &[Category],
        size: (u64, u64),
    ) -> Result<Vec<Annotation>, String> {
        let boxes = self.boxes(cells, size);
        let classes = self.doubles(cells, "categories").unwrap_or_default();
        let keypoints = self.keypoints(cells);
        let ids = self.ids(cells, "annotation_ids");
        let areas = self.doubles(cells, "areas").unwrap_or_default();
        let crowds = self.doubles(cells, "iscrowd").unwrap_or_default();
        let polygons = self.polygons(cells);
        let masks = self.masks(cells);
        let of_masks = masks.iter().map(|(of, _)| of + 1).max().unwrap_or(0);
        let of_polygons = polygons.iter().map(|(of, _)| of + 1).max().unwrap_or(0);
        let of_keypoints = keypoints.keys().next_back().map_or(0, |of| of + 1);
        let count = boxes.len().max(classes.len()).max(of_keypoints).max(of_masks).max(of_polygons);
        if !boxes.is_empty() && boxes.len() != count {
            return Err(format!("it has {} boxes, but {count} things", boxes.len()));
        }
        let mut things: Vec<Annotation> = (0..count)
            .map(|i| Annotation {
                id: ids.get(i).copied().flatten(),
                category_id: classes.get(i).map(|class| match categories.get(*class as usize) {
                    Some(category) => category.id,
                    None => *class as i64 + 1,
                }),
                area: match areas.get(i) {
                    Some(area) if area.is_finite() => Some(*area),
                    Some(_) => None,
                    None => boxes.get(i).map(|b| b[2] * b[3]).filter(|_| self.place("areas").is_none()),
                },
                bbox: boxes.get(i).map(|b| b.to_vec()),
                iscrowd: Some(crowds.get(i).map_or(0, |crowd| *crowd as i64)),
                num_keypoints: keypoints
                    .get(&i)
                    .map(|all| all.chunks(3).filter(|p| p.get(2) > Some(&0.0)).count() as u64),
                keypoints: keypoints.get(&i).cloned(),
                ..Annotation::default()
            })
            .collect();
        for (of, polygon) in polygons {
            match &mut things[of].segmentation {
                Some(Segmentation::Polygons(all)) => all.push(polygon),
                other => *other = Some(Segmentation::Polygons(vec![polygon])),
            }
        }
        for (of, runs) in masks {
            things[of].segmentation = Some(runs);
        }
        if let Some(Cell::List(captions)) = self.get(cells, "captions") {
            let ids = self.ids(cells, "caption_ids");
            for (i, caption) in captions.iter().enumerate() {
                if let Cell::Text(caption) = caption {
                    things.push(Annotation {
                        id: ids.get(i).copied().flatten(),
                        caption: Some(caption.clone()),
                        ..Annotation::default()
                    });
                }
            }
        }
        Ok(things)
    }

    /// Boxes as COCO has them: left, top, width, height in pixels.
    fn boxes(&self, cells: &[Cell], (height, width): (u64, u64)) -> Vec<[f64; 4]> {
        let Some(place) = self.place("boxes") else { return Vec::new() };
        let Some(numbers) = coordinates(&cells[place]) else { return Vec::new() };
        let coords = self.columns[place].column.options().get("coords").cloned().unwrap_or_default();
        let (mode, kind) =
            (coords["mode"].as_str().unwrap_or("LTWH"), coords["type"].as_str().unwrap_or("pixel"));
        let scale = match kind {
            "fractional" => [width as f64, height as f64],
            _ => [1.0, 1.0],
        };
        let one = |&[a, b, c, d]: &[f64; 4]| {
            let [left, top, width, height] = match mode {
                "LTRB" => [a, b, c - a, d - b],
                "CCWH" => [a - c / 2.0, b - d / 2.0, c, d],
                _ => [a, b, c, d],
            };
            [left * scale[0], top * scale[1], width * scale[0], height * scale[1]]
        };
        numbers.as_chunks::<4>().0.iter().map(one).collect()
    }

    /// The keypoints of each thing that has some.
    fn keypoints(&self, cells: &[Cell]) -> BTreeMap<usize, Vec<f64>> {
        let Some(cell) = self.get(cells, "keypoints") else { return BTreeMap::new() };
        let of = self.doubles(cells, "keypoints_of");
        let whose = |thing: u64| match &of {
            Some(of) => of.get(thing as usize).map(|of| *of as usize),
            None => Some(thing as usize),
        };
        match (cell.elements(), coordinates(cell)) {
            (Some((_, &[numbers, things], _)), Some(all)) => (0..things)
                .filter_map(|thing| {
                    let own = (0..numbers).map(|row| all[(row * things + thing) as usize]).collect();
                    Some((whose(thing)?, own))
                })
                .collect(),
            _ => BTreeMap::new(),
        }
    }

    /// Outlines, and whose they are.
    fn polygons(&self, cells: &[Cell]) -> Vec<(usize, Vec<f64>)> {
        let Some(Cell::List(outlines)) = self.get(cells, "polygons") else { return Vec::new() };
        let of = self.doubles(cells, "polygons_of");
        let outline = |(place, outline): (usize, &Cell)| {
            let (_, dims, _) = outline.elements()?;
            let numbers = coordinates(outline)?;
            // COCO's points are in a plane.
            let width = dims.last().copied().unwrap_or(2).max(2) as usize;
            let flat = numbers.chunks_exact(width).flat_map(|point| [point[0], point[1]]).collect();
            let of = match &of {
                Some(of) => *of.get(place)? as usize,
                None => place,
            };
            Some((of, flat))
        };
        outlines.iter().enumerate().filter_map(outline).collect()
    }

    /// Masks as runs, and whose they are.
    fn masks(&self, cells: &[Cell]) -> Vec<(usize, Segmentation)> {
        let Some(cell) = self.get(cells, "masks") else { return Vec::new() };
        let Some((_, &[height, width, count], bytes)) = cell.elements() else { return Vec::new() };
        let of = self.doubles(cells, "masks_of");
        let mask = |layer: usize| {
            let runs = rle::encode(bytes, height as usize, width as usize, count as usize, layer);
            let counts = Counts::Text(rle::render(&runs));
            let of = of.as_ref().and_then(|of| of.get(layer)).map_or(layer, |of| *of as usize);
            (of, Segmentation::Runs { counts, size: [height, width] })
        };
        (0..count as usize).map(mask).collect()
    }
}

/// Coordinates as doubles. Those kept as float32 get the shortest decimal that they stand for: 510.66, not 510.6600036621094.
fn coordinates(cell: &Cell) -> Option<Vec<f64>> {
    let numbers = cell.doubles()?;
    let is_single = cell.elements().is_some_and(|(dtype, ..)| dtype == lacus_tensor::DType::F32);
    let short = |number: f64| (number as f32).to_string().parse().unwrap_or(number);
    Some(if is_single { numbers.into_iter().map(short).collect() } else { numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_and_second_ones_are_new() {
        let check = |ids: &[Option<i64>], expected: &[i64]| assert_eq!(unique(ids), expected);
        check(&[], &[]);
        check(&[None, None], &[1, 2]);
        check(&[Some(7), Some(3)], &[7, 3]);
        check(&[None, Some(7), Some(7), None], &[8, 7, 9, 10]);
        check(&[Some(-5), None], &[-5, 1]);
        check(&[Some(i64::MAX), None], &[i64::MAX, i64::MIN]);
    }
}
