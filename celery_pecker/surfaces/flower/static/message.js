// The page of one message of an outbox: what it waits for, its arguments and headers.
pecker.view.pictures.push(data => {
    pecker.text(pecker.view.byId("name"), pecker.shown(data.task));
    pecker.verdict(pecker.view.byId("verdict"), data.verdict, data.task_id);
    pecker.facts(pecker.view.byId("facts"), data.facts);
    pecker.attribute(pecker.view.byId("flower-task"), "href", pecker.taskUrl(data.task_id));
});
