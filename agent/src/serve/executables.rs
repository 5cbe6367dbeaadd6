//! Which well-known executables the container has: what a caller may expect to run there. Looked up once.

use std::path::Path;

use crate::environment::{DEFAULT_PATH, is_executable};

/// The names that are looked for, sorted.
pub const WELL_KNOWN: [&str; 40] = [
    "apt-get", "bash", "bun", "bundle", "busybox", "cargo", "clang", "cmake", "composer", "curl", "deno",
    "dotnet", "fish", "gcc", "git", "go", "gradle", "java", "jq", "kubectl", "make", "mvn", "node", "npm",
    "npx", "perl", "php", "pip", "pnpm", "python", "python3", "rg", "ruby", "rustc", "sh", "ssh", "tar",
    "uv", "yarn", "zsh",
];

/// The names of [`WELL_KNOWN`] that are on this `PATH`, sorted.
#[must_use]
pub fn find(path: Option<&str>) -> Vec<String> {
    let path = path.unwrap_or(std::str::from_utf8(DEFAULT_PATH).unwrap_or_default());
    let found = |name: &&str| path.split(':').any(|folder| is_executable(&Path::new(folder).join(name)));
    WELL_KNOWN.iter().copied().filter(found).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_on_the_path_count() {
        assert!(WELL_KNOWN.is_sorted());
        assert!(find(Some("/usr/bin:/bin")).contains(&"sh".to_owned()));
        assert!(find(Some("/nowhere")).is_empty());
    }
}
