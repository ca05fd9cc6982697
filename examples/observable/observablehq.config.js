export default {
  title: "Business overview",
  root: "src",
  output: "dist",
  pages: [],
  pager: false,
  sidebar: false,
  toc: false,
  footer: "",
  // By default, the pages load fonts from Google's servers.
  globalStylesheets: [],
  // src/data/NAME.csv.sql is the query that makes data/NAME.csv.
  interpreters: {".sql": ["sh", "query.sh"]}
};
