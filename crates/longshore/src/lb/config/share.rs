//! What each of several load balancers has of the limits of a configuration.

use super::{Config, check};
use crate::config::ConfigError;

impl Config {
    /// The settings of the `nth` of `count` load balancers: each has a part of the connections that there may be, of those kept idle, and
    /// of the requests that may wait.
    pub fn share(&self, nth: u16, count: u16) -> Config {
        let mut config = self.clone();
        let part = |of: &mut u32| {
            let (nth, count) = (u32::from(nth), u32::from(count));
            *of = *of / count + u32::from(nth < *of % count);
        };
        for frontend in &mut config.frontends {
            part(&mut frontend.max_connections);
        }
        for pool in &mut config.pools {
            pool.queue = pool.queue.div_ceil(count.into());
            pool.idle_connections = pool.idle_connections.div_ceil(count.into());
            for backend in &mut pool.backends {
                part(&mut backend.max_connections);
            }
        }
        config
    }

    /// Checks that connections can be divided among so many.
    ///
    /// # Errors
    /// The first limit of which some would have nothing.
    pub fn check_shares(&self, count: u16) -> Result<(), ConfigError> {
        let frontends = self.frontends.iter().map(|frontend| {
            let key = format!("frontends.{}.max-connections", frontend.name);
            (key, frontend.max_connections)
        });
        let backends = self.pools.iter().flat_map(|pool| {
            let backends = pool.backends.iter().enumerate();
            backends.map(|(index, backend)| {
                let key = format!("pools.{}.backends[{index}].max-connections", pool.name);
                (key, backend.max_connections)
            })
        });
        let mut limits = frontends.chain(backends);
        match limits.find(|(_, limit)| *limit < count.into()) {
            None => Ok(()),
            Some((key, limit)) => Err(self.source.wrong(check::Wrong {
                key,
                value: limit.to_string(),
                remedy: format!(
                    "each of {count} cores has a part of it; use {count} or more, or fewer --cores"
                ),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(connections: u32) -> Config {
        let text = format!(
            "[frontends.web]\nlisten = [\"10.9.0.2:80\"]\npool = \"app\"\nmax-connections = 10\n\
             [pools.app]\nqueue = 5\nidle-connections = 0\n\
             backends = [\"10.9.0.1:1\", {{ address = \"10.9.0.1:2\", max-connections = {connections} }}]\n"
        );
        Config::parse("lb.toml", &text).unwrap()
    }

    #[test]
    fn parts_are_as_much_as_the_whole() {
        let config = limited(7);
        for count in [1, 2, 3, 7] {
            let parts: Vec<_> = (0..count).map(|nth| config.share(nth, count)).collect();
            let all = |of: fn(&Config) -> u32| parts.iter().map(of).sum::<u32>();
            assert_eq!(all(|part| part.frontends[0].max_connections), 10);
            assert_eq!(all(|part| part.pools[0].backends[1].max_connections), 7);
            for part in &parts {
                let pool = &part.pools[0];
                assert_eq!(pool.queue, 5_usize.div_ceil(count.into()));
                assert_eq!(pool.idle_connections, 0);
                assert!(pool.backends[1].max_connections > 0);
                assert!(pool.backends[0].max_connections > 1_000_000);
            }
        }
    }

    #[test]
    fn a_limit_of_which_a_core_would_have_nothing_is_refused() {
        let config = limited(3);
        config.check_shares(3).unwrap();
        let told = config.check_shares(4).unwrap_err().to_string();
        let expected = "lb.toml:8: pools.app.backends[1].max-connections = 3: each of 4 cores";
        assert!(told.starts_with(expected), "{told}");
    }
}
