use std::sync::Arc;

use fleetbeat_proto::v1;
use uuid::Uuid;

use super::super::Trouble;
use super::{Parts, find, message};
use crate::registry::{Agent, Facts};
use crate::store::events::Scope;

const PAGE: u32 = 100;
const PAGE_MOST: u32 = 1_000;
const SESSIONS: u32 = 20;
const EVENTS: u32 = 50;
const MATCH_LENGTH: usize = 255;

/// Filters of a list.
struct Filter<'a> {
    group: &'a str,
    verdicts: Vec<v1::Verdict>,
    text: &'a str,
    prefix: String,
}

impl<'a> Filter<'a> {
    fn of(request: &'a v1::ListAgentsRequest) -> Result<Self, Trouble> {
        if request.r#match.len() > MATCH_LENGTH {
            return Err(Trouble::Wrong(format!(
                "`match` is longer than {MATCH_LENGTH} bytes"
            )));
        }
        let verdicts = request.verdicts.iter().map(|number| verdict(*number));
        let verdicts = verdicts.collect::<Result<_, _>>()?;
        let text = request.r#match.as_str();
        Ok(Self {
            group: &request.group,
            verdicts,
            text,
            prefix: text.to_ascii_lowercase(),
        })
    }

    fn accepts(&self, agent: &Agent, facts: &Facts) -> bool {
        (self.group.is_empty() || facts.group == self.group)
            && (self.text.is_empty()
                || facts.name.contains(self.text)
                || find::begins(agent.id, &self.prefix))
            && (self.verdicts.is_empty()
                || self
                    .verdicts
                    .contains(&v1::Verdict::from(agent.watch().verdict)))
    }
}

fn verdict(number: i32) -> Result<v1::Verdict, Trouble> {
    let known = v1::Verdict::try_from(number).ok();
    let known = known.filter(|verdict| *verdict != v1::Verdict::Unspecified);
    known.ok_or_else(|| {
        Trouble::Wrong("verdicts are online, suspect, offline, left and unknown".into())
    })
}

pub(super) fn list(
    parts: &Parts,
    request: &v1::ListAgentsRequest,
) -> Result<v1::ListAgentsResponse, Trouble> {
    let size = page_size(request.page_size, PAGE)?;
    let filter = Filter::of(request)?;
    let after = Place::parse(&request.page_token)?;
    let matching = parts.registry.agents().into_iter().filter_map(|agent| {
        let facts = agent.facts();
        filter.accepts(&agent, &facts).then_some((facts, agent))
    });
    let mut total = 0;
    let mut rest: Vec<(Arc<Facts>, Arc<Agent>)> = matching
        .inspect(|_| total += 1)
        .filter(|(facts, agent)| {
            after
                .as_ref()
                .is_none_or(|after| after.before(facts, agent))
        })
        .collect();
    let more = rest.len() > size;
    let order = |(a, x): &(Arc<Facts>, Arc<Agent>), (b, y): &(Arc<Facts>, Arc<Agent>)| {
        (&a.name, x.id).cmp(&(&b.name, y.id))
    };
    // Only the page itself needs an order.
    if more {
        rest.select_nth_unstable_by(size, order);
        rest.truncate(size);
    }
    rest.sort_unstable_by(order);
    let last = rest.last().filter(|_| more);
    let next_page_token = last.map_or_else(String::new, |(facts, agent)| Place::of(facts, agent));
    let (policies, clock) = (parts.desk.policies(), parts.registry.clock());
    let (now, wall) = (clock.now(), clock.wall());
    let agents = rest
        .iter()
        .map(|(_, agent)| message::agent(&agent.view(now, wall), &policies));
    Ok(v1::ListAgentsResponse {
        agents: agents.collect(),
        next_page_token,
        total,
    })
}

/// Where a page ended: names may repeat, so the id decides between them.
struct Place {
    id: Uuid,
    name: String,
}

impl Place {
    fn of(facts: &Facts, agent: &Agent) -> String {
        format!("{}/{}", agent.id, facts.name)
    }

    fn parse(token: &str) -> Result<Option<Self>, Trouble> {
        if token.is_empty() {
            return Ok(None);
        }
        let place = token.split_once('/').and_then(|(id, name)| {
            Some(Self {
                id: Uuid::parse_str(id).ok()?,
                name: name.to_owned(),
            })
        });
        let wrong = || Trouble::Wrong("`page_token` is none of this server's; begin anew".into());
        place.ok_or_else(wrong).map(Some)
    }

    fn before(&self, facts: &Facts, agent: &Agent) -> bool {
        (self.name.as_str(), self.id) < (facts.name.as_str(), agent.id)
    }
}

/// The size asked for; 0 means `default`.
pub(super) fn page_size(asked: u32, default: u32) -> Result<usize, Trouble> {
    let size = if asked == 0 { default } else { asked };
    if size > PAGE_MOST {
        return Err(Trouble::Wrong(format!(
            "`page_size` is at most {PAGE_MOST}, not {asked}"
        )));
    }
    Ok(size as usize)
}

pub(super) async fn get(
    parts: &Parts,
    request: &v1::GetAgentRequest,
) -> Result<v1::GetAgentResponse, Trouble> {
    let agent = find::agent(&parts.registry, &request.agent)?;
    let clock = parts.registry.clock();
    let view = agent.view(clock.now(), clock.wall());
    let shown = message::agent(&view, &parts.desk.policies());
    let scope = Scope::Agent(agent.id);
    let history = tokio::try_join!(
        parts.store.recent_sessions(agent.id, SESSIONS),
        parts.store.recent_events(&scope, EVENTS),
    );
    let (sessions, events, history_unavailable) = match history {
        Ok((sessions, events)) => (sessions, events, String::new()),
        Err(error) => (Vec::new(), Vec::new(), error.sentence()),
    };
    Ok(v1::GetAgentResponse {
        agent: Some(shown),
        sessions: sessions.into_iter().map(message::session).collect(),
        events: events.into_iter().rev().map(message::event).collect(),
        history_unavailable,
    })
}
