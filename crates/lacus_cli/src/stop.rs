//! Ctrl-C: the first one asks the command to stop and clean up, the second one ends the process.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::Output;

/// A stop that takes longer than this is explained.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the user asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    asked: watch::Receiver<bool>,
}

impl Stop {
    /// Listens from now on.
    pub(crate) async fn listen(output: Output) -> Stop {
        let flag = Arc::new(AtomicBool::new(false));
        let (sender, asked) = watch::channel(false);
        let raised = Arc::clone(&flag);
        let mut first = Box::pin(tokio::signal::ctrl_c());
        // It listens from its first poll on, so that is here and not when the task gets its turn.
        let heard = poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await;
        tokio::spawn(async move {
            let heard = match heard {
                Poll::Ready(heard) => heard,
                Poll::Pending => first.await,
            };
            if heard.is_err() {
                return;
            }
            raised.store(true, Ordering::Relaxed);
            let _ = sender.send(true);
            let again = tokio::signal::ctrl_c();
            tokio::pin!(again);
            if tokio::time::timeout(PATIENCE, &mut again).await.is_err() {
                output.say("stopping; Ctrl-C again ends at once");
                let _ = again.await;
            }
            std::process::exit(Failure::stopped().exit_code());
        });
        Stop { flag, asked }
    }

    /// Nobody asks: whoever runs listens itself.
    pub(crate) fn never() -> Stop {
        Stop { flag: Arc::default(), asked: watch::channel(false).1 }
    }

    /// The flag that writers look at.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Does work that can be dropped anywhere, until it ends or a stop is asked for.
    pub(crate) async fn or<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let mut asked = self.asked.clone();
        tokio::select! {
            result = work => result,
            Ok(_) = asked.wait_for(|asked| *asked) => Err(Failure::stopped()),
        }
    }
}
