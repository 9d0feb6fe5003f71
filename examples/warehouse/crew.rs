//! The members' processes, and how one of them is killed: tasks in memory, real processes where there is a server.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tidings::backend::Memory;
use tidings_examples::Failure;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::{member, run};

/// How long a member may take to get as far as where it is killed.
const PATIENCE: Duration = Duration::from_mins(1);

/// Who starts members and kills them.
pub(crate) trait Crew {
    /// Starts a member, which stops for ever after so many pages if it is to be killed.
    async fn start(&mut self, name: &'static str, killed_after: Option<usize>) -> Result<(), Failure>;
    /// Kills a member, once it has got so far.
    async fn kill(&mut self, name: &'static str) -> Result<(), Failure>;
    /// Says whether a member has failed.
    fn look(&mut self) -> Result<(), Failure>;
    /// Waits until all that are left have ended well.
    async fn ended(self) -> Result<(), Failure>;
}

/// Members that are tasks with brokers of their own over one memory.
pub(crate) struct Tasks {
    memory: Memory,
    environment: String,
    members: JoinSet<Result<(), Failure>>,
    handles: HashMap<&'static str, AbortHandle>,
    /// Told by the one that is to be killed.
    there: Arc<Notify>,
}

impl Tasks {
    pub(crate) fn new(memory: Memory, environment: &str) -> Self {
        Self {
            memory,
            environment: environment.to_owned(),
            members: JoinSet::new(),
            handles: HashMap::new(),
            there: Arc::default(),
        }
    }
}

impl Crew for Tasks {
    async fn start(&mut self, name: &'static str, killed_after: Option<usize>) -> Result<(), Failure> {
        let broker = run::broker(self.memory.clone(), &self.environment)?;
        let there = self.there.clone();
        let working = member::work(broker, name.to_owned(), killed_after, move || there.notify_one());
        self.handles.insert(name, self.members.spawn(working));
        Ok(())
    }

    async fn kill(&mut self, name: &'static str) -> Result<(), Failure> {
        let there = timeout(PATIENCE, self.there.notified()).await;
        there.map_err(|_| format!("`{name}` didn't get far enough to be killed"))?;
        // Its future is dropped where it stands: nothing is recorded.
        self.handles.remove(name).ok_or("there is no such member")?.abort();
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    async fn ended(mut self) -> Result<(), Failure> {
        while let Some(ended) = self.members.join_next().await {
            match ended {
                Err(killed) if killed.is_cancelled() => {}
                ended => ended??,
            }
        }
        Ok(())
    }
}

/// Members that are processes of this very program.
pub(crate) struct Processes {
    url: String,
    environment: String,
    members: HashMap<&'static str, Child>,
}

impl Processes {
    pub(crate) fn new(url: String, environment: &str) -> Self {
        Self { url, environment: environment.to_owned(), members: HashMap::new() }
    }
}

/// Says that a process is a member; its name, the run and perhaps after how many pages it stops follow.
pub(crate) const MEMBER: &str = "--member";
/// What a member prints when it has got as far as where it is to be killed.
pub(crate) const THERE: &str = "there";

impl Crew for Processes {
    async fn start(&mut self, name: &'static str, killed_after: Option<usize>) -> Result<(), Failure> {
        let mut member = Command::new(std::env::current_exe()?)
            .args([MEMBER, name, &self.environment])
            .args(killed_after.map(|pages| pages.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut to = member.stdin.take().ok_or("the member doesn't listen")?;
        // The URL may hold a password, so it is no argument.
        to.write_all(self.url.as_bytes()).await?;
        self.members.insert(name, member);
        Ok(())
    }

    async fn kill(&mut self, name: &'static str) -> Result<(), Failure> {
        let mut member = self.members.remove(name).ok_or("there is no such member")?;
        let said = member.stdout.take().ok_or("the member says nothing")?;
        let mut lines = BufReader::new(said).lines();
        let line =
            timeout(PATIENCE, lines.next_line()).await.map_err(|_| format!("`{name}` didn't get far enough"))??;
        if line.as_deref() != Some(THERE) {
            return Err(format!("`{name}` ended before it could be killed").into());
        }
        // SIGKILL: it says good-bye to nobody.
        member.kill().await?;
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        for (name, member) in &mut self.members {
            if let Some(status) = member.try_wait()?.filter(|status| !status.success()) {
                return Err(format!("`{name}` failed: {status}").into());
            }
        }
        Ok(())
    }

    async fn ended(mut self) -> Result<(), Failure> {
        for (name, mut member) in self.members.drain() {
            let status = member.wait().await?;
            if !status.success() {
                return Err(format!("`{name}` failed: {status}").into());
            }
        }
        Ok(())
    }
}
