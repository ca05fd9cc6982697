package sandbox

const task = "id title description priority start_date end_date stage_id project_id milestone_id project:projects@project_id{id name} " +
	"milestone:milestones@milestone_id{id title} assigned_users:users*assigned_to{id name}"

func projectEndpoints() []*endpoint {
	const project = "id name status description start_date end_date created_by total_task:tasks<project_id# members:users*members{id name} clients:users*clients{id name}"
	const bug = "id title description priority start_date end_date stage_id project_id order assigned_to comments:bug_comments<bug_id{id comment user_id}"
	const report = "id name status total_task:tasks<project_id# total_bug:bugs<project_id# total_milestone:milestones<project_id#"
	inProject := func(w *world, p params, payload any) any {
		return obj("project", obj("id", w.idIn("projects", p["id"]+p["project_id"])), "stages", payload, "statusClass", list{"task-list-1", "task-list-2"})
	}
	return []*endpoint{
		{route: "GET /api/projects", dialect: d1, message: "Projects retrieved", from: "projects", order: "-created_at", view: project, pager: itemsPager, size: 10},
		{route: "GET /api/get-projects", dialect: d3, from: "projects", view: "id name", wrap: named("projects")},
		{route: "GET /api/project/show/{id}", dialect: d2, from: "projects", idParam: "id", view: project + " budget|whole daysleft=end_date|daysleft total_bug:bugs<project_id# " +
			"milestones:milestones<project_id{id title status} files:project_files<project_id{id file_name file_path}", wrap: named("project")},
		{route: "GET /api/project/milestones", dialect: d2, from: "milestones", order: "-id", view: "* -project_id", pager: laravelPager, size: 10},
		{route: "GET /api/project/clients", dialect: d1, message: "Clients retrieved", from: "users", where: "type=client", view: user + " email", pager: itemsPager, size: 10},
		{route: "GET /api/project/task-stages", dialect: d1, message: "Stages retrieved", from: "task_stages", view: "*"},
		{route: "GET /api/project/bug-stages", dialect: d2, from: "bug_stages", view: "* complete|flag"},
		{route: "GET /api/bug-status-list", dialect: d0, from: "bug_stages", view: "id name"},
		{route: "GET /api/project/{id}/task-board", dialect: d2, from: "tasks", where: "project_id=$id", view: task + " assigned_to", wrap: inProject,
			board: &board{of: "task_stages", view: "id name color complete order", as: "tasks", by: "stage_id"}},
		{route: "GET /api/project/task/show/{id}", dialect: d2, from: "tasks", idParam: "id",
			view: task + " assigned_to comments:task_comments<task_id{id comment user_id} sub_tasks:subtasks<task_id{id name due_date is_done}"},
		{route: "GET /api/project/bug/{project_id}", dialect: d2, from: "bugs", where: "project_id=$project_id", view: bug, wrap: inProject,
			board: &board{of: "bug_stages", view: "id name color order", as: "bugs", by: "stage_id"}},
		{route: "GET /api/project/bug/show/{bug_id}", dialect: d2, from: "bugs", idParam: "bug_id", view: bug, wrap: named("bug")},
		{route: "GET /api/project/report/{id}", dialect: d1, message: "Report retrieved", from: "projects", idParam: "id", view: report + " daysleft=end_date|daysleft",
			wrap: func(_ *world, _ params, figures any) any {
				return append(figures.(object), obj("chart", list{3, 1, 4}, "labels", list{"Todo", "Review", "Done"})...)
			}},
		{route: "GET /api/project/reports", dialect: d1, message: "Reports retrieved", from: "projects", view: report},
	}
}

func tasklyEndpoints() []*endpoint {
	const project = "id name status description total_task=id|projecttasks total_comments:project_activity<project_id# start_date end_date created_by " +
		"members:users*members{id name avatar|url} clients:users*clients{id name}"
	return []*endpoint{
		{route: "GET /api/taskly/projects", dialect: d1, message: "Projects", from: "projects", view: project},
		{route: "GET /api/taskly/projects/{project}/tasks", dialect: d1, message: "Tasks", from: "tasks", where: "project_id=$project", view: task, pager: itemsPager, size: 10},
		{route: "POST /api/taskly/project-list", dialect: d1, message: "Projects retrieved successfully", from: "projects", order: "-created_at", view: project, pager: itemsPager, size: 10},
		{route: "POST /api/taskly/project-details", dialect: d1, message: "Project retrieved", required: "project_id", from: "projects", idParam: "project_id",
			view: project + " budget|whole daysleft=end_date|daysleft total_bug:bugs<project_id# milestones:milestones<project_id{id title status cost} " +
				"files:project_files<project_id{id file_name file_path}"},
		{route: "POST /api/taskly/project-activity", dialect: d1, message: "Activity", required: "project_id", from: "project_activity", where: "project_id=$project_id", order: "-id",
			view: "id log_type remark time user:users@user_id.name"},
		{route: "POST /api/taskly/task-list", dialect: d1, message: "Tasks", from: "tasks", where: "project_id=?project_id priority=?status", view: task},
		{route: "POST /api/taskly/task-details", dialect: d1, message: "Task", required: "task_id", from: "tasks", idParam: "task_id", where: "project_id=?project_id",
			view: task + " created_at sub_tasks:subtasks<task_id{id name due_date is_done} comments:task_comments<task_id{id comment}"},
		{route: "POST /api/taskly/taskboard", dialect: d1, message: "Board", required: "project_id", from: "tasks", where: "project_id=$project_id", view: task,
			board: &board{of: "task_stages", view: "id name color complete order", as: "tasks", by: "stage_id"}},
		{route: "GET /api/taskly/users", dialect: d1, message: "Users", from: "users", where: "type=staff", view: user},
		{route: "GET /api/taskly/home", dialect: d1, message: "Home", object: tasklyHome},
	}
}

// supportEndpoints returns the endpoints of the help desk. Records with equal times have no defined order.
func supportEndpoints() []*endpoint {
	return []*endpoint{
		{route: "GET /api/support-ticket/tickets", dialect: d1, message: "Tickets retrieved successfully", from: "tickets", order: "-created_at", pager: itemsPager, size: 10,
			view: "id ticket_id name email account_type subject status description|plain note category_name:ticket_categories@category.name color:ticket_categories@category.color attachments"},
		{route: "GET /api/support-ticket/knowledges", dialect: d1, message: "Knowledge retrieved", from: "knowledges", order: "-created_at", view: "id title description category", pager: itemsPager, size: 10},
		{route: "GET /api/support-ticket/faqs", dialect: d1, message: "Faqs retrieved", from: "faqs", order: "-created_at", view: "id title description|plain", pager: itemsPager, size: 10},
		{route: "GET /api/support-ticket/get-request-data", dialect: d1, message: "Data", lists: []namedList{
			{"categories", "ticket_categories", "", "id name color"}, {"staff", "users", "type=staff", "id name email"}, {"knowledge_categories", "knowledge_categories", "", "id title"}}},
		{route: "GET /api/support-ticket/home", dialect: d0, object: supportHome},
	}
}
