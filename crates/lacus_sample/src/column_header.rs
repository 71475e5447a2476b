//! What the table keeps of a column, and back. Headers are foreign data: whatever is in one, reading it ends in a
//! column or in an error.
//!
//! The parameters are a JSON object: `compression`, `options`, `tiling` (the two bounds in bytes), `unranked` where
//! the empty shape means an open one, `dtype` where the column's own says `string`, `dtype_declared` where files must have the
//! dtype of the column.

use std::str::FromStr;

use lacus_tensor::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::column::{Column, ColumnSpec, Compression, Form};
use crate::error::SampleError;
use crate::htype::HType;
use crate::logical::Logical;
use crate::options;
use crate::rules::{Holds, rules};
use crate::tiling::Tiling;

/// The fields of the row that describes a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnHeader {
    /// The type: `sequence[image]`.
    pub htype: String,
    /// numpy's name of the dtype; empty while it is open, `string` where rows hold text.
    pub dtype: String,
    /// The size of each axis, -1 where samples differ.
    pub shape: Vec<i64>,
    /// Everything else, as a JSON object.
    pub parameters: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    #[serde(default = "auto")]
    compression: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dtype_declared: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unranked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tiling: Option<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
}

fn auto() -> String {
    Compression::Auto.to_string()
}

/// The dtype of a column whose rows hold text.
const STRING: &str = "string";

impl Column {
    /// What the table keeps of this column.
    pub fn header(&self) -> ColumnHeader {
        let dtype = self.dtype().map(DType::name);
        let is_text = self.form() == Form::Text;
        let size = |size: &Option<u64>| size.map_or(-1, |size| i64::try_from(size).unwrap_or(-1));
        let tiling = self.tiling();
        let parameters = Parameters {
            compression: self.compression().to_string(),
            dtype: dtype.filter(|_| is_text).map(str::to_owned),
            dtype_declared: self.is_dtype_declared(),
            unranked: self.shape().is_none() && self.rules().holds != Holds::Text,
            tiling: (self.form() == Form::Blob).then(|| [tiling.over_bytes(), tiling.tile_bytes()]),
            options: self.options().clone(),
        };
        ColumnHeader {
            htype: self.htype().to_string(),
            dtype: if is_text { STRING } else { dtype.unwrap_or_default() }.to_owned(),
            shape: self.shape().unwrap_or_default().iter().map(size).collect(),
            // Numbers and strings always have a JSON form.
            parameters: serde_json::to_string(&parameters).unwrap_or_default(),
        }
    }

    /// The column that a header describes.
    ///
    /// Fails with a corrupt error where it contradicts itself, with an invalid one where a name (type, dtype,
    /// parameter) is not known to this version.
    pub fn from_header(header: &ColumnHeader) -> Result<Column, SampleError> {
        let unknown = |what, found: &str| SampleError::Unknown { what, found: found.to_owned() };
        let corrupt = |detail: String| SampleError::corrupt("column header", detail);
        let htype: HType = header.htype.parse().map_err(|_| unknown("htype", &header.htype))?;
        let parameters: Parameters = serde_json::from_str(&header.parameters).map_err(|error| match error
            .to_string()
            .starts_with("unknown field")
        {
            true => unknown("column parameter", &header.parameters),
            false => corrupt(format!("the parameters are not readable: {error}")),
        })?;
        let rules = rules(htype.base);
        // What options say wrong is found when the column is made.
        let is_wide = options::read(htype.base, &parameters.options)
            .is_ok_and(|(_, settings)| settings.logical.as_ref().is_some_and(Logical::is_wide));
        let is_text = htype.link || rules.holds == Holds::Text || is_wide;
        if is_text != (header.dtype == STRING) {
            return Err(corrupt(format!("{htype} with the dtype {:?}", header.dtype)));
        }
        let dtype = match (is_text, &parameters.dtype) {
            (true, dtype) => dtype.as_deref(),
            (false, None) => Some(header.dtype.as_str()).filter(|dtype| !dtype.is_empty()),
            (false, Some(second)) => return Err(corrupt(format!("a second dtype {second:?}"))),
        };
        let dtype =
            dtype.map(|name| DType::from_str(name).map_err(|_| unknown("dtype", name))).transpose()?;
        if dtype.is_none() && !rules.dtypes.is_empty() && !is_wide {
            return Err(corrupt(format!("{htype} without a dtype")));
        }
        let axis = |size: &i64| match size {
            -1 => Ok(None),
            0.. => Ok(Some(*size as u64)),
            _ => Err(corrupt(format!("an axis of size {size}"))),
        };
        let shape = header.shape.iter().map(axis).collect::<Result<Vec<_>, _>>()?;
        let declared = match rules.holds {
            // These have one shape only.
            Holds::Text | Holds::Polygons | Holds::Bytes => None,
            _ if parameters.unranked => None,
            _ => Some(shape.clone()),
        };
        let spec = ColumnSpec {
            htype: Some(header.htype.clone()),
            dtype,
            shape: declared,
            compression: Some(parameters.compression.clone()),
            options: parameters.options,
        };
        let column = Column::new(&spec).map_err(|error| corrupt(error.to_string()))?;
        // Older headers do not say whether the dtype was asked for or is that of the first file.
        let column = match (column.is_dtype_declared(), parameters.dtype_declared) {
            (true, false) => column.without_declared_dtype(),
            (false, true) => return Err(corrupt(format!("{htype} with a dtype declared for files"))),
            _ => column,
        };
        let unranked = column.shape().is_none() && rules.holds != Holds::Text;
        if shape != column.shape().unwrap_or_default() || parameters.unranked != unranked {
            return Err(corrupt(format!("{htype} of shape {:?}", header.shape)));
        }
        match parameters.tiling {
            Some([over, tile]) => {
                let tiling = Tiling::new(over, tile).map_err(|error| corrupt(error.to_string()))?;
                Ok(column.with_tiling(tiling))
            }
            None => Ok(column),
        }
    }
}
