//! Actions over plain HTTP: what is shown before, who is refused, and what they do.

use reqwest::header::CONTENT_TYPE;

use super::*;

const WORDCOUNT: &str = "/in/default/deployment/wordcount";

/// A person who has a page open.
struct Person<'s> {
    shown: &'s Shown,
    cookie: String,
}

impl<'s> Person<'s> {
    async fn at(shown: &'s Shown) -> Self {
        Self { shown, cookie: shown.cookie().await }
    }

    async fn page(&self, path: &str) -> (u16, String) {
        let page = self.shown.get(path).header(COOKIE, &self.cookie).send().await.unwrap();
        (page.status().as_u16(), page.text().await.unwrap())
    }

    /// Returns the secret in the forms of a page.
    async fn form(&self, path: &str) -> String {
        self.hidden(path, "form").await
    }

    /// Returns what the forms of a page say about the resource that it shows.
    async fn version(&self, path: &str) -> String {
        self.hidden(path, "version").await
    }

    async fn hidden(&self, path: &str, field: &str) -> String {
        let (_, page) = self.page(path).await;
        let start = format!("name=\"{field}\" value=\"");
        let value = page.split_once(&start).unwrap_or_else(|| panic!("no {field}: {page}")).1;
        value.split_once('"').unwrap().0.to_owned()
    }

    fn post(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.bare(path, fields).header(COOKIE, &self.cookie).header(ORIGIN, self.shown.base())
    }

    /// Returns a request without the headers that a browser would add.
    fn bare(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = client().post(format!("{}{path}", self.shown.base())).body(body);
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")
    }

    /// Submits a form, and waits until the command that it starts has ended.
    async fn done(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let begun = self.post(path, fields).send().await.unwrap();
        assert_eq!(begun.status(), StatusCode::SEE_OTHER, "{}", begun.text().await.unwrap());
        let run = begun.headers()[LOCATION].to_str().unwrap().to_owned();
        let started = Instant::now();
        loop {
            let (_, page) = self.page(&run).await;
            if !page.contains("Running") {
                return page;
            }
            assert!(started.elapsed() < PATIENCE, "{page}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn an_action_is_planned_and_shown_as_a_command_before_it_is_done() {
    let shown = Shown::new(stage()).await;
    let person = Person::at(&shown).await;
    let (_, page) = person.page(WORDCOUNT).await;
    for told in ["/do/suspend\">Suspend</a>", "/do/rollback?revision=1\">Roll back to this</a>"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let suspend = format!("{WORDCOUNT}/do/suspend");
    let (status, page) = person.page(&suspend).await;
    assert_eq!(status, 200);
    let command = "<code>kubectl flink suspend wordcount --wait --timeout=10m -n default</code>";
    for told in [command, "What the operator would do", "job.state: ", "suspended</span>"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let scale = format!("{WORDCOUNT}/do/scale");
    let (_, page) = person.page(&scale).await;
    assert!(page.contains("name=\"parallelism\"") && !page.contains("method=\"post\""), "{page}");
    let (_, page) = person.page(&format!("{scale}?parallelism=7")).await;
    for told in ["scale wordcount --parallelism=7", "job.parallelism", "<button class=\"go\">Scale"]
    {
        assert!(page.contains(told), "{told}: {page}");
    }
    let (_, page) = person.page(&format!("{scale}?parallelism=-7")).await;
    assert!(page.contains("Invalid value.") && !page.contains("method=\"post\""), "{page}");
    assert!(shown.cluster.writes().is_empty(), "nothing is written before a form is sent");
}

#[tokio::test]
async fn what_is_sent_is_done_as_the_command_line_does_it() {
    let shown = Shown::new(stage()).await;
    let person = Person::at(&shown).await;
    let abort = "/in/default/bluegreen/shop/do/abort";
    let form = person.form(abort).await;
    let page = person.done(abort, &[("form", &form)]).await;
    for told in ["Done", "kubectl flink abort bluegreen/shop -n default", "Back to shop"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let writes = shown.cluster.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    let (_, page) = person.page("/runs").await;
    assert!(page.contains("<a href=\"/runs/1\">Abort: shop</a>"), "{page}");
    let (status, _) = person.page("/runs/2").await;
    assert_eq!(status, 404);

    // A command that fails reports the same as on the command line.
    let rollback = format!("{WORDCOUNT}/do/rollback");
    let version = person.version(&format!("{rollback}?revision=1")).await;
    let fields = [("form", form.as_str()), ("version", &version), ("revision", "9")];
    let page = person.done(&rollback, &fields).await;
    for told in ["Failed", "`wordcount` has no revision 9", "kubectl flink history wordcount"] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

#[tokio::test]
async fn state_is_not_lost_before_somebody_has_agreed() {
    let cluster = stage();
    let mut stateless = cluster.object("flinkdeployments", "default", "wordcount").unwrap();
    stateless["spec"]["job"]["upgradeMode"] = json!("stateless");
    cluster.insert(stateless);
    let shown = Shown::new(cluster).await;
    let person = Person::at(&shown).await;
    let suspend = format!("{WORDCOUNT}/do/suspend");
    let form = person.form(&suspend).await;
    let version = person.version(&suspend).await;
    let begin = async || {
        let fields = [("form", form.as_str()), ("version", &version)];
        let begun = person.post(&suspend, &fields).send().await.unwrap();
        begun.headers()[LOCATION].to_str().unwrap().to_owned()
    };
    let answer = async |run: &str, answer: &str| {
        let events = shown.get(&format!("{run}/events")).header(COOKIE, &person.cookie);
        described(events.send().await.unwrap(), &["stateless", "name=\\\"answer\\\""]).await;
        let sent = person.post(&format!("{run}/answer"), &[("form", &form), ("answer", answer)]);
        assert_eq!(status(sent).await, 303);
        let events = shown.get(&format!("{run}/events")).header(COOKIE, &person.cookie);
        events.send().await.unwrap()
    };
    let run = begin().await;
    described(answer(&run, "no").await, &["Failed", "nothing was changed"]).await;
    assert!(shown.cluster.writes().is_empty());
    let run = begin().await;
    described(answer(&run, "yes").await, &["suspended"]).await;
    let suspended = shown.cluster.object("flinkdeployments", "default", "wordcount").unwrap();
    assert_eq!(suspended["spec"]["job"]["state"], "suspended");
}

#[tokio::test]
async fn a_manifest_is_planned_and_then_deployed() {
    let shown = Shown::new(stage()).await;
    let person = Person::at(&shown).await;
    let edit = "/deploy?namespace=default&kind=deployment&name=bills";
    let (_, page) = person.page(edit).await;
    for told in ["kind: FlinkDeployment", "image: flink:9", "name: bills", "Preview"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(!page.contains("lifecycleState") && !page.contains("resourceVersion"), "{page}");
    let form = person.form(edit).await;
    let manifest = "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: bills}\n\
                    spec:\n  flinkConfiguration: {execution.checkpointing.dir: s3://b/c}\n  jobManager: {resource: {memory: 1g}}\n  \
                    taskManager: {resource: {memory: 1g}}\n  image: flink:1.20\n  flinkVersion: v1_20\n  serviceAccount: flink\n  job:\n    \
                    jarURI: local:///job.jar\n    parallelism: 2\n    upgradeMode: last-state\n";
    let version = person.version(edit).await;
    let fields = [("form", form.as_str()), ("version", &version), ("manifest", manifest)];
    let planned = person.post(edit, &fields).send().await.unwrap().text().await.unwrap();
    for told in
        ["What the operator would do", "bills", "deploy -f bills.yaml --wait", ">Deploy</button>"]
    {
        assert!(planned.contains(told), "{told}: {planned}");
    }
    let wrong = [("form", form.as_str()), ("manifest", "kind: FlinkDeployment\nspec: {imag: x}")];
    let refused = person.post(edit, &wrong).send().await.unwrap().text().await.unwrap();
    assert!(
        refused.contains("This would be refused") && !refused.contains(">Deploy</button>"),
        "{refused}"
    );
    let writes =
        || shown.cluster.writes().into_iter().filter(|it| !it.uri.contains("dryRun")).count();
    assert_eq!(writes(), 0, "nothing is written by looking");
    let run = edit.replace("/deploy?", "/deploy/run?");
    let begun = person.post(&run, &fields).send().await.unwrap();
    assert_eq!(begun.headers()[LOCATION], "/runs/1");
    let started = Instant::now();
    while writes() == 0 {
        assert!(started.elapsed() < PATIENCE, "{}", person.page("/runs/1").await.1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let bills = shown.cluster.object("flinkdeployments", "default", "bills").unwrap();
    assert_eq!(bills["spec"]["image"], "flink:1.20");
}

/// A page may be old: what others have changed since is neither shown on it nor meant.
#[tokio::test]
async fn a_page_from_before_a_change_does_not_undo_it() {
    let shown = Shown::new(stage()).await;
    let person = Person::at(&shown).await;
    let edit = "/deploy?namespace=default&kind=deployment&name=wordcount";
    let rollback = format!("{WORDCOUNT}/do/rollback");
    let rolled_back = format!("{rollback}?revision=1");
    let (form, of_editor) = (person.form(edit).await, person.version(edit).await);
    let of_rollback = person.version(&rolled_back).await;

    // What a running job does to its status is no change of what the page shows.
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut object = shown.cluster.object("flinkdeployments", "default", "wordcount").unwrap();
        change(&mut object);
        shown.cluster.insert(object);
    };
    change(&|object| object["status"]["error"] = json!("something happened"));
    assert_eq!(person.version(edit).await, of_editor);

    change(&|object| object["spec"]["job"]["state"] = json!("suspended"));
    let manifest = "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: wordcount}\n\
                    spec: {job: {state: running}}";
    let run = edit.replace("/deploy?", "/deploy/run?");
    let fields = |version: &str| {
        [("form", form.clone()), ("version", version.to_owned()), ("manifest", manifest.to_owned())]
    };
    for version in [of_editor.as_str(), ""] {
        let fields = fields(version);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let refused = person.post(&run, &fields).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        let page = refused.text().await.unwrap();
        assert!(page.contains("has been changed since this page was opened"), "{page}");
    }
    let fields = [("form", form.as_str()), ("version", &of_rollback), ("revision", "1")];
    assert_eq!(status(person.post(&rollback, &fields)).await, 409);
    assert!(shown.cluster.writes().iter().all(|it| it.uri.contains("dryRun")));
    let present = shown.cluster.object("flinkdeployments", "default", "wordcount").unwrap();
    assert_eq!(present["spec"]["job"]["state"], "suspended");

    // A page that shows the present is not refused.
    let version = person.version(&rolled_back).await;
    let fields = [("form", form.as_str()), ("version", &version), ("revision", "1")];
    let begun = person.post(&rollback, &fields).send().await.unwrap();
    assert_eq!(begun.status(), StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn forms_of_others_do_nothing() {
    let shown = Shown::new(stage()).await;
    let person = Person::at(&shown).await;
    let suspend = format!("{WORDCOUNT}/do/suspend");
    let form = person.form(&suspend).await;
    let own = [("form", form.as_str())];
    let refused = [
        (person.post(&suspend, &[]), 403),
        (person.post(&suspend, &[("form", "0123456789abcdef")]), 403),
        (person.post("/deploy/run", &[("manifest", "kind: FlinkDeployment")]), 403),
        (
            person
                .bare(&suspend, &own)
                .header(COOKIE, &person.cookie)
                .header(ORIGIN, "http://evil.example"),
            403,
        ),
        (person.bare(&suspend, &own).header(COOKIE, &person.cookie), 403),
        (person.bare(&suspend, &own).header(ORIGIN, shown.base()), 401),
        (person.post("/in/default/deployment/wordcount/do/format", &own), 404),
    ];
    for (index, (request, wanted)) in refused.into_iter().enumerate() {
        assert_eq!(status(request).await, wanted, "{index}");
    }
    assert!(shown.cluster.writes().is_empty());
}

#[tokio::test]
async fn only_what_the_person_may_do_is_offered_and_done() {
    let denied = vec![("patch", "flinkdeployments"), ("create", "flinkdeployments")];
    let shown = Shown::behind(stage(), Behind { denied, ..Behind::default() }).await;
    let person = Person::at(&shown).await;
    let (_, page) = person.page(WORDCOUNT).await;
    assert!(page.contains("/do/savepoint") && !page.contains("/do/suspend"), "{page}");
    let (_, fleet) = person.page("/").await;
    assert!(!fleet.contains("href=\"/deploy\""), "{fleet}");
    let (status, page) = person.page(&format!("{WORDCOUNT}/do/suspend")).await;
    assert!(status == 403 && page.contains("Permission denied"), "{page}");
    let form = person.form(&format!("{WORDCOUNT}/do/savepoint")).await;
    let sent = person.post(&format!("{WORDCOUNT}/do/suspend"), &[("form", &form)]);
    assert_eq!(super::status(sent).await, 403);
    let (_, page) = person.page("/in/default/sessionjob/clicks").await;
    assert!(page.contains("/do/suspend"), "of another kind it may: {page}");
    assert!(shown.cluster.writes().is_empty());
}
