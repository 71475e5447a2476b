//! Windows into memory that several tasks share: the only file of this crate that handles pointers.
//!
//! ```text
//! result of the caller  ┌──────┬──────┐     every tile is written by one task at a time, then read by any number of
//!                       │ tile │ tile │     them; the graph says which that is, so no two ever write the same
//!                       └──────┴──────┘
//! ```

use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_tensor::{Buffer, DType, Element, Scalar, Shape, Tensor, TensorError, TensorRef};
use lacus_threads::Team;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// What keeps the memory of windows alive.
type Owner = Arc<dyn Any + Send + Sync>;

/// A dense tile: elements of one type in C order or with any other strides, shared and read only.
#[derive(Clone)]
pub struct Window {
    first: NonNull<u8>,
    dtype: DType,
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<isize>,
    owner: Owner,
}

/// A dense tile that one task is writing.
pub(crate) struct WindowMut(Window);

// SAFETY: the memory is owned by `owner`, which may be sent and shared; it is read only while windows to it exist,
// except through the one `WindowMut` of each part of it.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

/// A buffer whose parts are written through windows.
struct Shared {
    first: NonNull<u8>,
    buffer: Buffer,
}

// SAFETY: the pointer is into the buffer, which may be sent and shared.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(mut buffer: Buffer) -> Shared {
        // An empty buffer has no first element, and nobody asks for it.
        let first = NonNull::new(buffer.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Shared { first, buffer }
    }
}

/// Strides of an array in C order, in elements.
pub(crate) fn c_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
    }
    strides
}

impl Window {
    /// Memory of somebody else, who stays alive as long as the window.
    ///
    /// # Safety
    /// Every element that shape and strides (in elements) reach from `first` is readable, aligned and never written for
    /// as long as `owner` lives.
    pub unsafe fn foreign(
        first: NonNull<u8>,
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<isize>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Window {
        Window { first, dtype, shape, strides, owner }
    }

    /// A tensor's elements.
    pub fn of_tensor(tensor: Tensor) -> Window {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().dims().iter().map(|&n| n as usize).collect());
        Window::of_buffer(dtype, shape, tensor.into_buffer())
    }

    fn of_buffer(dtype: DType, shape: Vec<usize>, buffer: Buffer) -> Window {
        let shared = Shared::new(buffer);
        let (first, strides) = (shared.first, c_strides(&shape));
        Window { first, dtype, shape, strides, owner: Arc::new(shared) }
    }

    /// As a tensor that owns its elements; copied only if somebody else looks at them.
    pub fn into_tensor(self) -> Result<Tensor, TensorError> {
        let whole = self.into_contiguous();
        let shape = Shape::new(whole.shape.iter().map(|&n| n as u64).collect::<Vec<_>>())?;
        let bytes = whole.len() * whole.dtype.size_bytes();
        let (dtype, first) = (whole.dtype, whole.first);
        let copied = |window: &Window| Buffer::from_slice(window.bytes().unwrap_or_default());
        let Window { owner, shape: dims, strides, .. } = whole;
        let buffer = match owner.downcast::<Shared>() {
            Ok(shared) => match Arc::try_unwrap(shared) {
                Ok(shared) if shared.buffer.len() == bytes => shared.buffer,
                Ok(shared) => copied(&Window { first, dtype, shape: dims, strides, owner: Arc::new(shared) }),
                Err(shared) => copied(&Window { first, dtype, shape: dims, strides, owner: shared }),
            },
            Err(owner) => copied(&Window { first, dtype, shape: dims, strides, owner }),
        };
        Tensor::new(dtype, shape, buffer)
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements from one position to the next along each axis.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Its elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bytes of its elements.
    pub fn size_bytes(&self) -> u64 {
        (self.len() * self.dtype.size_bytes()) as u64
    }

    /// Where its first element is. Everything that shape and strides reach from there is readable.
    pub(crate) fn first(&self) -> NonNull<u8> {
        self.first
    }

    /// True when its elements follow one another in C order.
    pub fn is_contiguous(&self) -> bool {
        let want = c_strides(&self.shape);
        self.is_empty()
            || self.shape.iter().zip(self.strides.iter().zip(&want)).all(|(&n, (a, b))| n == 1 || a == b)
    }

    /// A part of it. Nothing is copied. Panics outside.
    pub fn part(&self, starts: &[usize], shape: &[usize]) -> Window {
        let mut offset = 0;
        for axis in 0..self.shape.len() {
            assert!(starts[axis] + shape[axis] <= self.shape[axis], "a part lies within");
            if shape[axis] > 0 {
                offset += starts[axis] as isize * self.strides[axis];
            }
        }
        let first = if shape.contains(&0) {
            self.first
        } else {
            // SAFETY: the position lies within the window.
            unsafe { self.first.offset(offset * self.dtype.size_bytes() as isize) }
        };
        Window {
            first,
            dtype: self.dtype,
            shape: shape.to_vec(),
            strides: self.strides.clone(),
            owner: Arc::clone(&self.owner),
        }
    }

    /// Its elements as a slice, if they follow one another.
    pub fn slice<T: Element>(&self) -> Option<&[T]> {
        let fits = size_of::<T>() == self.dtype.size_bytes();
        // SAFETY: as many elements follow one another, of a type for which all bits are fine.
        (fits && self.is_contiguous())
            .then(|| unsafe { std::slice::from_raw_parts(self.first.as_ptr().cast(), self.len()) })
    }

    /// Its bytes, if its elements follow one another.
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: as many bytes follow one another.
        self.is_contiguous().then(|| unsafe {
            std::slice::from_raw_parts(self.first.as_ptr(), self.len() * self.dtype.size_bytes())
        })
    }

    /// Its single element's bytes, or those of its first.
    pub(crate) fn head(&self) -> Option<&[u8]> {
        // SAFETY: a window that is not empty has a first element.
        (!self.is_empty())
            .then(|| unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.dtype.size_bytes()) })
    }

    /// As a tensor that is borrowed, if its elements follow one another.
    pub fn as_tensor(&self) -> Option<TensorRef<'_>> {
        let shape = Shape::new(self.shape.iter().map(|&n| n as u64).collect::<Vec<_>>()).ok()?;
        TensorRef::contiguous(self.dtype, &shape, self.bytes()?).ok()
    }

    /// A matrix within it: from an offset on, with extents and strides in elements.
    ///
    /// # Safety
    /// All of the matrix lies within the window, whose elements are `T`.
    pub(crate) unsafe fn matrix<T: Element>(
        &self,
        offset: isize,
        shape: [usize; 2],
        strides: [isize; 2],
    ) -> MatrixRef<'_, T> {
        // SAFETY: passed on from the caller.
        unsafe { MatrixRef::from_raw(self.first.cast::<T>().offset(offset), shape, strides) }
    }

    /// The same elements, copied if they do not follow one another.
    pub(crate) fn into_contiguous(self) -> Window {
        if self.is_contiguous() {
            return self;
        }
        let mut copy = WindowMut::for_overwrite(self.dtype, &self.shape);
        copy.copy_from(&self);
        copy.freeze()
    }
}

impl WindowMut {
    /// Fresh memory of arbitrary contents, for a task that writes all of it.
    pub(crate) fn for_overwrite(dtype: DType, shape: &[usize]) -> WindowMut {
        let bytes = shape.iter().product::<usize>() * dtype.size_bytes();
        WindowMut(Window::of_buffer(dtype, shape.to_vec(), Buffer::for_overwrite(bytes)))
    }

    /// The same for a whole result, whose size the caller has chosen. With a team, its threads ask for all pages from the
    /// beginning. Fails if there is no memory.
    pub(crate) fn for_result(
        dtype: DType,
        shape: &[usize],
        team: Option<Team<'_>>,
    ) -> Result<WindowMut, TensorError> {
        let bytes = shape.iter().fold(dtype.size_bytes(), |bytes, &extent| bytes.saturating_mul(extent));
        let mut buffer = Buffer::try_for_overwrite(bytes)?;
        if let Some(team) = team {
            let part = bytes.div_ceil(team.threads()).next_multiple_of(2 << 20);
            team.map(buffer.chunks_mut(part).collect(), Buffer::populate);
        }
        Ok(WindowMut(Window::of_buffer(dtype, shape.to_vec(), buffer)))
    }

    /// Fresh zeros.
    pub(crate) fn zeroed(dtype: DType, shape: &[usize]) -> WindowMut {
        let bytes = shape.iter().product::<usize>() * dtype.size_bytes();
        WindowMut(Window::of_buffer(dtype, shape.to_vec(), Buffer::zeroed(bytes)))
    }

    /// A part of what others see as a whole.
    ///
    /// # Safety
    /// Nobody reads or writes this part until it is frozen.
    pub(crate) unsafe fn within(whole: &Window, starts: &[usize], shape: &[usize]) -> WindowMut {
        WindowMut(whole.part(starts, shape))
    }

    /// Written: from now on it is only read.
    pub(crate) fn freeze(self) -> Window {
        self.0
    }

    /// A tile that was begun, to go on with.
    ///
    /// # Safety
    /// Nobody reads or writes it until it is frozen again.
    pub(crate) unsafe fn resume(window: Window) -> WindowMut {
        WindowMut(window)
    }

    /// What was written so far, to be read.
    pub(crate) fn window(&self) -> &Window {
        &self.0
    }

    /// Where its first element is. Everything that shape and strides reach from there is writable.
    pub(crate) fn first(&mut self) -> NonNull<u8> {
        self.0.first
    }

    /// Its elements as a slice, if they follow one another.
    pub(crate) fn slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let fits = size_of::<T>() == self.0.dtype.size_bytes();
        // SAFETY: as many elements follow one another, and nobody else has them.
        (fits && self.0.is_contiguous())
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.0.first.as_ptr().cast(), self.0.len()) })
    }

    /// Its bytes, if its elements follow one another.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as many bytes follow one another, and nobody else has them.
        self.0.is_contiguous().then(|| unsafe {
            std::slice::from_raw_parts_mut(self.0.first.as_ptr(), self.0.len() * self.0.dtype.size_bytes())
        })
    }

    /// A matrix within it, see [`Window::matrix`].
    ///
    /// # Safety
    /// All of the matrix lies within the window, whose elements are `T`, and no two elements are the same.
    pub(crate) unsafe fn matrix<T: Element>(
        &mut self,
        offset: isize,
        shape: [usize; 2],
        strides: [isize; 2],
    ) -> MatrixMut<'_, T> {
        // SAFETY: passed on from the caller.
        unsafe { MatrixMut::from_raw(self.0.first.cast::<T>().offset(offset), shape, strides) }
    }

    /// Takes the elements of a tile of the same shape and type. Panics if it has another.
    pub(crate) fn copy_from(&mut self, from: &Window) {
        assert!(from.shape == self.0.shape && from.dtype == self.0.dtype, "tiles are alike");
        let size = self.0.dtype.size_bytes();
        let rank = self.0.shape.len();
        if self.0.is_empty() {
            return;
        }
        if let (Some(out), Some(bytes)) = (self.bytes_mut(), from.bytes()) {
            return out.copy_from_slice(bytes);
        }
        // Line by line along the last axis.
        let (line, to_step, from_step) = match rank {
            0 => (1, 1, 1),
            _ => (self.0.shape[rank - 1], self.0.strides[rank - 1], from.strides[rank - 1]),
        };
        let outer = &self.0.shape[..rank.saturating_sub(1)];
        let mut at = vec![0usize; outer.len()];
        loop {
            let offset = |strides: &[isize]| -> isize {
                at.iter().zip(strides).map(|(&at, &stride)| at as isize * stride).sum()
            };
            // SAFETY: both positions lie within their windows, and so do `line` steps from there; the two windows do not
            // overlap, for one of them is written by nobody else.
            unsafe {
                let to = self.0.first.as_ptr().offset(offset(&self.0.strides) * size as isize);
                let source = from.first.as_ptr().offset(offset(&from.strides) * size as isize);
                if to_step == 1 && from_step == 1 {
                    std::ptr::copy_nonoverlapping(source, to, line * size);
                } else {
                    for n in 0..line as isize {
                        let step = size as isize * n;
                        std::ptr::copy_nonoverlapping(
                            source.offset(step * from_step),
                            to.offset(step * to_step),
                            size,
                        );
                    }
                }
            }
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                at[axis] += 1;
                if at[axis] < outer[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} {:?} by {:?})", self.dtype, self.shape, self.strides)
    }
}

/// The bytes of an element, and zeros behind.
pub(crate) fn bits(value: Scalar) -> [u8; 8] {
    let mut all = [0; 8];
    match value {
        Scalar::Bool(x) => all[0] = u8::from(x),
        Scalar::I64(x) => all = x.to_le_bytes(),
        Scalar::F32(x) => all[..4].copy_from_slice(&x.to_le_bytes()),
        Scalar::F64(x) => all = x.to_le_bytes(),
    }
    all
}

/// One element.
///
/// # Safety
/// It is readable and of this type.
pub(crate) unsafe fn read(from: *const u8, dtype: DType) -> Scalar {
    // SAFETY: passed on from the caller.
    unsafe {
        match dtype {
            DType::Bool => Scalar::Bool(*from != 0),
            DType::I64 => Scalar::I64(from.cast::<i64>().read_unaligned()),
            DType::F32 => Scalar::F32(from.cast::<f32>().read_unaligned()),
            _ => Scalar::F64(from.cast::<f64>().read_unaligned()),
        }
    }
}

/// Writes one value everywhere.
pub(crate) fn fill(out: &mut WindowMut, value: Scalar) {
    let size = out.0.dtype.size_bytes();
    let one = bits(value.convert(out.0.dtype));
    if let Some(bytes) = out.bytes_mut() {
        if one[..size].iter().all(|&byte| byte == one[0]) {
            bytes.fill(one[0]);
        } else {
            bytes.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(&one[..size]));
        }
        return;
    }
    let (shape, strides) = (out.0.shape.clone(), out.0.strides.clone());
    let mut line = WindowMut::for_overwrite(out.0.dtype, &shape);
    fill(&mut line, value);
    debug_assert_eq!(strides.len(), shape.len());
    out.copy_from(line.window());
}

impl Window {
    /// Its first element, if there is one.
    pub fn scalar(&self) -> Option<Scalar> {
        // SAFETY: a window that is not empty has a first element of its type.
        self.head().map(|head| unsafe { read(head.as_ptr(), self.dtype) })
    }
}
