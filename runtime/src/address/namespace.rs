use std::fmt;

use super::NameError;
use super::name::is_word;

const MAX_PART_BYTES: usize = 32;

/// Application and environment. They start every address, so two environments on one broker never meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    application: Box<str>,
    environment: Box<str>,
}

impl Namespace {
    /// Checks both parts against `[a-z0-9][a-z0-9-]{0,31}`.
    ///
    /// # Errors
    ///
    /// [`NameError`] names the part that breaks the grammar.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidings::Namespace;
    /// assert_eq!(Namespace::new("shop", "prod")?.to_string(), "shop.prod");
    /// assert!(Namespace::new("Shop", "prod").is_err());
    /// # Ok::<(), tidings::NameError>(())
    /// ```
    pub fn new(application: impl Into<String>, environment: impl Into<String>) -> Result<Self, NameError> {
        let part = |what, text: String| {
            if is_word(&text, MAX_PART_BYTES, b"-") {
                Ok(text.into_boxed_str())
            } else {
                Err(NameError::new(what, &text, "must match `[a-z0-9][a-z0-9-]{0,31}`"))
            }
        };
        Ok(Self {
            application: part("application", application.into())?,
            environment: part("environment", environment.into())?,
        })
    }

    /// Returns the application's name.
    #[must_use]
    pub fn application(&self) -> &str {
        &self.application
    }

    /// Returns the environment's name.
    #[must_use]
    pub fn environment(&self) -> &str {
        &self.environment
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.application, self.environment)
    }
}
