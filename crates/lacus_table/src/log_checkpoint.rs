use crate::error::TableError;
use lacus_io::Store;
pub(crate) struct LogState;
pub(crate) async fn write(_store: &Store, _state: &LogState) -> Result<(), TableError> {
    todo!()
}
impl crate::snapshot::Snapshot {
    pub(crate) fn log_state(&self) -> LogState {
        LogState
    }
}
